#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/numbers/type.hpp"

namespace gpumat {

/// Rows × columns of a matrix; either may be 0.
struct Shape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;

    [[nodiscard]] std::int64_t elements() const { return rows * cols; }
    [[nodiscard]] Shape transposed() const { return {cols, rows}; }
    bool operator==(const Shape&) const = default;
};

/// "2003x51".
std::string to_string(const Shape& shape);

/// Bytes of a dense matrix; nothing where that passes 2⁶³ − 1. The extents must not be negative.
std::optional<std::size_t> addressable_bytes(const Shape& shape, Type type);

/// Bytes of a dense matrix. Throws Error{memory} naming `what` where the size passes 2⁶³ − 1 bytes, so
/// that a shape read from a file is safe to compute with afterwards. Throws Error{input} for a negative
/// extent.
std::size_t dense_bytes(const Shape& shape, Type type, const std::string& what);

/// A rectangle of a matrix, half-open: rows [row, row + rows) × columns [col, col + cols).
struct Block {
    std::int64_t row = 0;
    std::int64_t col = 0;
    std::int64_t rows = 0;
    std::int64_t cols = 0;

    [[nodiscard]] Shape shape() const { return {rows, cols}; }
    [[nodiscard]] bool inside(const Shape& whole) const;
    bool operator==(const Block&) const = default;

    static Block whole(const Shape& shape) { return {0, 0, shape.rows, shape.cols}; }
};

}  // namespace gpumat
