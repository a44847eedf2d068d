#pragma once

#include <cstdint>
#include <optional>

#include "core/numbers/blocks.hpp"
#include "formats/format.hpp"
#include "lib/record/progress.hpp"

namespace gpumat {

/// How two matrices of one shape, or one and the transpose of the other, are read at the same time.
struct SideBySideOptions {
    bool transposed = false;          ///< Y has the shape of X's transpose
    bool conjugate_x = false;         ///< X comes conjugated
    int threads = 1;                  ///< for that
    Shape grain{1, 1};                ///< blocks of X must be whole multiples of this, but at the edges
    std::uint64_t element_bytes = 0;  ///< taken for each element of a block beside the two elements
    std::optional<std::uint64_t> memory_limit{};
    Progress* progress = nullptr;  ///< hears of the bytes of both; may be null
};

/// Reads both matrices block by block, from the top down and from left to right, and gives each block to
/// `take`: whole multiples of what either reads best, as far as the memory goes. Without a limit they take
/// some 10 MB, or half of the memory that is available where a file is read anew for each block. Views have
/// no gaps between rows and live until `take` returns. The shapes must fit. Throws as the readers do, and
/// Error{memory} with the least that would do.
void read_side_by_side(formats::Reader& x, formats::Reader& y, const SideBySideOptions& options,
                       const TakeBlocks& take);

}  // namespace gpumat
