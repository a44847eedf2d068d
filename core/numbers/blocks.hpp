#pragma once

#include <cstdint>
#include <functional>

#include "core/numbers/matrix.hpp"
#include "core/numbers/shape.hpp"

// Rectangles in which a matrix is read or written piece by piece.

namespace gpumat {

/// Hears of a block of a matrix and its elements, which live until it returns.
using TakeBlock = std::function<void(const Block& block, const MatrixView& elements)>;
/// Hears of `block` of X and the same elements of another matrix as they lie there.
using TakeBlocks = std::function<void(const Block& block, const MatrixView& x, const MatrixView& y)>;

/// The grain within 1 × 1 and the whole matrix.
Shape clipped_grain(const Shape& grain, const Shape& whole);

/// The least common multiple of two grains, but no more than the whole.
Shape common_grain(const Shape& a, const Shape& b, const Shape& whole);

/// Bytes of a block of that shape at so many for an element; the largest number where they are more.
std::uint64_t block_bytes(const Shape& block, std::uint64_t element_bytes);

/// As many grains as `target` bytes hold, at least one, side by side first; no more than the whole.
Shape enlarged_grain(const Shape& grain, const Shape& whole, std::uint64_t element_bytes,
                     std::uint64_t target);

/// Calls `take` with every block of that size, smaller ones at the edges, from the top down and from left to
/// right; with the whole of a matrix without elements.
void for_each_block(const Shape& whole, const Shape& step, const std::function<void(const Block&)>& take);

}  // namespace gpumat
