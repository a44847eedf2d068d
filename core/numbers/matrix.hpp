#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/memory.hpp"
#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"

namespace gpumat {

/// A row-major matrix that somebody else owns, to read. Element (i, j) is at element offset i·ld + j.
struct MatrixView {
    Type type = Type::f32;
    Shape shape;
    std::int64_t ld = 0;  ///< elements from one row to the next, at least shape.cols
    const std::byte* data = nullptr;

    template <class T>
    [[nodiscard]] const T* row(std::int64_t i) const {
        return reinterpret_cast<const T*>(data) + i * ld;
    }
};

/// A row-major matrix that somebody else owns, to write.
struct MutableMatrixView {
    Type type = Type::f32;
    Shape shape;
    std::int64_t ld = 0;
    std::byte* data = nullptr;

    template <class T>
    [[nodiscard]] T* row(std::int64_t i) const {
        return reinterpret_cast<T*>(data) + i * ld;
    }
    operator MatrixView() const { return {type, shape, ld, data}; }  // NOLINT: a view to write is one to read
};

/// A dense row-major matrix (ld = columns) that owns its memory; the elements start uninitialised.
class Matrix {
  public:
    Matrix() = default;

    /// Throws Error{memory} naming `what` where the memory cannot be had.
    Matrix(const Shape& shape, Type type, const std::string& what = "matrix")
        : shape_(shape), type_(type), buffer_(dense_bytes(shape, type, what)) {}

    [[nodiscard]] const Shape& shape() const { return shape_; }
    [[nodiscard]] Type type() const { return type_; }
    [[nodiscard]] std::size_t bytes() const { return buffer_.size(); }
    [[nodiscard]] std::byte* data() { return buffer_.data(); }
    [[nodiscard]] const std::byte* data() const { return buffer_.data(); }
    [[nodiscard]] MatrixView view() const { return {type_, shape_, shape_.cols, buffer_.data()}; }
    [[nodiscard]] MutableMatrixView view() { return {type_, shape_, shape_.cols, buffer_.data()}; }

    /// The first element; rows follow each other without gaps.
    template <class T>
    [[nodiscard]] T* as() {
        return reinterpret_cast<T*>(buffer_.data());
    }
    template <class T>
    [[nodiscard]] const T* as() const {
        return reinterpret_cast<const T*>(buffer_.data());
    }

  private:
    Shape shape_;
    Type type_ = Type::f32;
    Buffer buffer_;
};

}  // namespace gpumat
