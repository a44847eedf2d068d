#pragma once

#include <cstdint>
#include <string>

#include "core/numbers/blocks.hpp"
#include "formats/format.hpp"

namespace gpumat {

/// The least memory in which a matrix can be read block by block, beside what its reader says that it takes.
std::uint64_t least_for_blocks(const formats::Header& header);

/// Whether blocks that take `bytes` together, about `room` of them at a time, would read a text of entries in
/// any order more than a few times: each of them reads all of it.
bool rereads_often(const formats::Header& header, std::uint64_t bytes, std::uint64_t room);

/// Reads a matrix block by block, each element once, within `room` bytes beside what the reader takes at
/// least. Views have no gaps between rows and live until `take` returns. Returns the content hash. Throws as
/// the reader does.
std::string read_in_blocks(formats::Reader& reader, std::uint64_t room, int threads, const TakeBlock& take);

}  // namespace gpumat
