#pragma once

#include <cstdint>
#include <string>

#include "core/numbers/blocks.hpp"
#include "formats/format.hpp"

namespace gpumat {

/// The least memory in which a matrix can be read block by block, beside what its reader says that it takes.
std::uint64_t least_for_blocks(const formats::Header& header);

/// Reads a matrix block by block, each element once, within `room` bytes beside what the reader takes at
/// least. Views have no gaps between rows and live until `take` returns. Returns the content hash. Throws as
/// the reader does.
std::string read_in_blocks(formats::Reader& reader, std::uint64_t room, int threads, const TakeBlock& take);

}  // namespace gpumat
