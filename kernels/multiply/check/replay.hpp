#pragma once

#include <vector>

#include "kernels/multiply/check/reference.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

/// The largest errors that were seen for the elements of a tile, kTileCols apart: of the parts of
/// op(A)·op(B), before α.
struct ReplayedErrors {
    std::vector<double> re;
    std::vector<double> im;  ///< empty for real types
};

/// Adds the products of a tile in the arithmetic that levels sum in, in orders that levels have: one after
/// the other; in 2 … 32 interleaved sums; in 2 … 8 consecutive parts; in blocks of 64 and of 256. Where
/// rounding errors are not independent (constant data, for one: they all go one way), this shows what they
/// come to. `sums` is the tile's reference. For floating and complex types.
ReplayedErrors replay_tile(const Problem& problem, const Operands& operands, const TilePlace& place,
                           const FloatTile& sums);

}  // namespace gpumat
