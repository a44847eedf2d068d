#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/memory.hpp"
#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"

// Sparse matrices to compute with: compressed rows (CSR). The columns of one are the rows of its transpose,
// so that CSC needs no type of its own.

namespace gpumat {

/// The largest extent of a matrix whose indices are of 32 bits.
inline constexpr std::int64_t kMostShortIndices = (std::int64_t{1} << 31) - 1;

/// Whether row and column indices are of 32 bits, else of 64: the same for a matrix and its transpose.
inline bool has_short_indices(const Shape& shape) {
    return shape.rows <= kMostShortIndices && shape.cols <= kMostShortIndices;
}

inline std::size_t index_bytes(const Shape& shape) {
    return has_short_indices(shape) ? sizeof(std::int32_t) : sizeof(std::int64_t);
}

/// Calls `function(TypeTag<I>{})` with the type of the indices of a matrix of that shape.
template <class Function>
decltype(auto) visit_index(const Shape& shape, Function&& function) {
    return has_short_indices(shape) ? function(TypeTag<std::int32_t>{}) : function(TypeTag<std::int64_t>{});
}

/// A sparse matrix that somebody else owns, to read. The entries of row i are those from pointers[i] up to
/// pointers[i + 1]: their columns, which increase, and their values.
struct CsrView {
    Type type = Type::f64;
    Shape shape;
    std::int64_t entries = 0;
    const std::int64_t* pointers = nullptr;  ///< rows + 1
    const std::byte* columns = nullptr;      ///< of the type that visit_index says
    const std::byte* values = nullptr;

    template <class I>
    [[nodiscard]] const I* columns_as() const {
        return reinterpret_cast<const I*>(columns);
    }
    template <class T>
    [[nodiscard]] const T* values_as() const {
        return reinterpret_cast<const T*>(values);
    }
};

/// The same, to write.
struct MutableCsrView {
    Type type = Type::f64;
    Shape shape;
    std::int64_t entries = 0;
    std::int64_t* pointers = nullptr;
    std::byte* columns = nullptr;
    std::byte* values = nullptr;

    template <class I>
    [[nodiscard]] I* columns_as() const {
        return reinterpret_cast<I*>(columns);
    }
    template <class T>
    [[nodiscard]] T* values_as() const {
        return reinterpret_cast<T*>(values);
    }
    operator CsrView() const { return {type, shape, entries, pointers, columns, values}; }  // NOLINT
};

/// Bytes of the entries of a sparse matrix, an index and a value each, without its row pointers.
std::uint64_t entry_bytes(const Shape& shape, Type type, std::int64_t entries);

/// Bytes of a sparse matrix in memory; the largest number where they pass it.
std::uint64_t csr_bytes(const Shape& shape, Type type, std::int64_t entries);

/// A sparse matrix that owns its memory, which starts uninitialised.
class Csr {
  public:
    Csr() = default;

    /// Throws Error{memory} naming `what` where the memory cannot be had.
    Csr(const Shape& shape, Type type, std::int64_t entries, const std::string& what = "matrix");
    /// Of columns and values that are there, which may have room for more; the pointers start uninitialised.
    Csr(const Shape& shape, Type type, std::int64_t entries, Buffer columns, Buffer values,
        const std::string& what = "matrix");

    [[nodiscard]] const Shape& shape() const { return shape_; }
    [[nodiscard]] Type type() const { return type_; }
    [[nodiscard]] std::int64_t entries() const { return entries_; }
    [[nodiscard]] CsrView view() const {
        return {type_,           shape_,
                entries_,        reinterpret_cast<const std::int64_t*>(pointers_.data()),
                columns_.data(), values_.data()};
    }
    [[nodiscard]] MutableCsrView view() {
        return {type_,           shape_,        entries_, reinterpret_cast<std::int64_t*>(pointers_.data()),
                columns_.data(), values_.data()};
    }
    /// Memory for so many entries in place of what there was, unless that had as many; the pointers stay.
    /// Throws Error{memory} naming `what`.
    void hold(std::int64_t entries, const std::string& what = "matrix");
    /// Leaves out all entries from `entries` on; the pointers say the same.
    void shorten(std::int64_t entries) { entries_ = entries; }

  private:
    Shape shape_;
    Type type_ = Type::f64;
    std::int64_t entries_ = 0;
    Buffer pointers_;
    Buffer columns_;
    Buffer values_;
};

/// What is wrong with the structure of a matrix, in words; nothing where it holds: pointers start at 0, never
/// fall and end at the count of entries, and the columns of each row are in range and increase. Positions in
/// the words count from 0, as in the arrays. It reads nothing that the arrays do not have.
std::optional<std::string> structure_fault(const CsrView& matrix, int threads);

/// Entries whose value is zero, of either sign.
std::int64_t explicit_zeros(const CsrView& matrix, int threads);

}  // namespace gpumat
