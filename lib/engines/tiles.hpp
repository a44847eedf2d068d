#pragma once

#include "kernels/level.hpp"
#include "lib/engines/layout.hpp"
#include "lib/engines/ranks.hpp"

// A transpose of panels: the rows of the one rank and the columns that are rows of the other make a tile that
// goes from the one to the other. Tiles go piece by piece, two of each at a time, so that memory and counts
// of bytes are bounded, what is received stays in a cache, and a piece is turned while others come.

namespace gpumat::engines {

/// Host memory of a rank that the exchange takes beside the matrices.
std::uint64_t tile_bytes(const Layout& input, const Layout& result);

/// By all ranks, which have panels of both: the transpose, whose pieces the level turns.
void exchange_tiles(Ranks& ranks, const Level& level, const Layout& input, const std::byte* rows,
                    const Layout& result, std::byte* out, int threads);

}  // namespace gpumat::engines
