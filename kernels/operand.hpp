#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "core/numbers/matrix.hpp"
#include "core/sparse/csr.hpp"

namespace gpumat {

/// How the elements of an operand lie in memory.
enum class Storage {
    dense,  ///< row-major: element (i, j) at offset i·pitch + j
    csr,    ///< compressed rows: core/sparse/csr.hpp
};

std::string_view name_of(Storage storage);

/// An operation has at most so many inputs.
inline constexpr std::size_t kMostInputs = 3;

/// How the operands of a problem lie: the inputs in the order of the operation's roles, and the result.
struct Structure {
    std::array<Storage, kMostInputs> inputs = {};
    Storage result = Storage::dense;
    bool operator==(const Structure&) const = default;
};

/// A matrix in memory, as it is stored (a transposed A is K×M).
struct Operand {
    const void* data = nullptr;  ///< null where it is not read
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t pitch = 0;  ///< elements from one row to the next, at least `cols`
    Storage storage = Storage::dense;
    // Of compressed rows; `data` are the values then.
    std::int64_t entries = 0;
    const std::int64_t* pointers = nullptr;
    const void* columns = nullptr;

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
    Storage storage = Storage::dense;
    std::int64_t entries = 0;
    std::int64_t* pointers = nullptr;
    void* columns = nullptr;

    template <class T>
    [[nodiscard]] T* as() const {
        return static_cast<T*>(data);
    }
    operator Operand() const {  // NOLINT
        return {data, rows, cols, pitch, storage, entries, pointers, columns};
    }
};

inline Operand operand_of(const MatrixView& matrix) {
    return {.data = matrix.data, .rows = matrix.shape.rows, .cols = matrix.shape.cols, .pitch = matrix.ld};
}
inline MutableOperand operand_of(const MutableMatrixView& matrix) {
    return {.data = matrix.data, .rows = matrix.shape.rows, .cols = matrix.shape.cols, .pitch = matrix.ld};
}

inline Operand operand_of(const CsrView& matrix) {
    return {.data = matrix.values,
            .rows = matrix.shape.rows,
            .cols = matrix.shape.cols,
            .storage = Storage::csr,
            .entries = matrix.entries,
            .pointers = matrix.pointers,
            .columns = matrix.columns};
}
inline MutableOperand operand_of(const MutableCsrView& matrix) {
    return {.data = matrix.values,
            .rows = matrix.shape.rows,
            .cols = matrix.shape.cols,
            .storage = Storage::csr,
            .entries = matrix.entries,
            .pointers = matrix.pointers,
            .columns = matrix.columns};
}

/// Memory for the entries of a sparse result whose number a level finds out: see kernels/level.hpp.
class EntryRoom {
  public:
    virtual ~EntryRoom() = default;
    EntryRoom() = default;
    EntryRoom(const EntryRoom&) = delete;
    EntryRoom& operator=(const EntryRoom&) = delete;

    /// The result with memory for so many entries, which are to be written; its pointers are those that it
    /// had. What was given before is gone. Throws Error{memory}.
    virtual MutableOperand take(std::int64_t entries) = 0;
};

/// Whether rows follow each other without gaps.
inline bool is_contiguous(const Operand& operand) {
    return operand.pitch == operand.cols || operand.rows <= 1;
}

}  // namespace gpumat
