#pragma once

#include <cstdint>

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// How the elements of an operand lie in memory.
enum class Storage {
    dense,  ///< row-major: element (i, j) at offset i·pitch + j
};

/// A matrix in memory, as it is stored (a transposed A is K×M), or a batch of them.
struct Operand {
    const void* data = nullptr;  ///< null where it is not read
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t pitch = 0;         ///< elements from one row to the next, at least `cols`
    std::int64_t batch_stride = 0;  ///< elements from one matrix of a batch to the next; 0 for a single one
    Storage storage = Storage::dense;

    template <class T>
    [[nodiscard]] const T* as() const {
        return static_cast<const T*>(data);
    }
};

/// The same, to write.
struct MutableOperand {
    void* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t pitch = 0;
    std::int64_t batch_stride = 0;
    Storage storage = Storage::dense;

    template <class T>
    [[nodiscard]] T* as() const {
        return static_cast<T*>(data);
    }
    operator Operand() const { return {data, rows, cols, pitch, batch_stride, storage}; }  // NOLINT
};

inline Operand operand_of(const MatrixView& matrix) {
    return {.data = matrix.data, .rows = matrix.shape.rows, .cols = matrix.shape.cols, .pitch = matrix.ld};
}
inline MutableOperand operand_of(const MutableMatrixView& matrix) {
    return {.data = matrix.data, .rows = matrix.shape.rows, .cols = matrix.shape.cols, .pitch = matrix.ld};
}

/// Whether rows follow each other without gaps.
inline bool is_contiguous(const Operand& operand) {
    return operand.pitch == operand.cols || operand.rows <= 1;
}

}  // namespace gpumat
