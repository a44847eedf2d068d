#pragma once

#include <algorithm>
#include <cstdint>

#include "core/numbers/blocks.hpp"
#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"

namespace gpumat::engines {

/// Ranks in rows and columns, counted row after row.
struct Grid {
    int rows = 1;
    int cols = 1;

    [[nodiscard]] int size() const { return rows * cols; }
};

/// Something cut into blocks that members take in turn, the first one the first.
struct Turns {
    std::int64_t block = 1;
    int members = 1;

    /// How many of those before `end` the member has.
    [[nodiscard]] std::int64_t before(std::int64_t end, int member) const {
        const std::int64_t round = block * members;
        return end / round * block + std::clamp<std::int64_t>(end % round - member * block, 0, block);
    }
    [[nodiscard]] int owner(std::int64_t index) const { return static_cast<int>(index / block % members); }
};

/// A matrix that is spread block-cyclically over a grid, with square blocks. What a rank has is row-major,
/// without gaps.
struct Layout {
    Shape shape;
    Type type = Type::f64;
    std::int64_t block = 1;
    Grid grid;

    [[nodiscard]] Turns rows() const { return {block, grid.rows}; }
    [[nodiscard]] Turns cols() const { return {block, grid.cols}; }
    [[nodiscard]] int row_of(int rank) const { return rank / grid.cols; }
    [[nodiscard]] int col_of(int rank) const { return rank % grid.cols; }
    [[nodiscard]] std::int64_t element() const { return static_cast<std::int64_t>(size_of(type)); }
    /// What the rank has.
    [[nodiscard]] Shape local(int rank) const {
        return {rows().before(shape.rows, row_of(rank)), cols().before(shape.cols, col_of(rank))};
    }
    /// Whether each rank has whole rows that follow each other, as they do in a file.
    [[nodiscard]] bool has_panels() const {
        return grid.cols == 1 && (grid.rows == 1 || block >= (shape.rows + grid.rows - 1) / grid.rows);
    }
    /// The rows of the rank then.
    [[nodiscard]] Block panel(int rank) const {
        return {std::min(shape.rows, row_of(rank) * block), 0, local(rank).rows, shape.cols};
    }
};

/// As many rows for each rank as for any other one, but for the last ones.
Layout in_panels(const Shape& shape, Type type, int ranks);

/// A grid of so many ranks for blocks of a result: the squarest, its longer side along the longer one of the
/// result.
Grid grid_for(int ranks, const Shape& result);

/// Large enough for the library to be fast, small enough for each rank to have as much as the others.
std::int64_t block_for(const Grid& grid, const Shape& result, std::int64_t inner);

}  // namespace gpumat::engines
