#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/memory.hpp"
#include "core/sparse/csr.hpp"
#include "core/sparse/entries.hpp"

// Sparse matrices as they are read: entries in any order (COO), several for one element too.

namespace gpumat {

/// Entries as arrays, of indices of the type that visit_index says of the matrix and of its values.
struct EntryPiece {
    std::int64_t count = 0;
    const std::byte* rows = nullptr;
    const std::byte* columns = nullptr;
    const std::byte* values = nullptr;
};

/// Entries in the order in which they came.
class Coo {
  public:
    /// With room for so many entries. Throws Error{memory} naming `what`.
    Coo(const Shape& shape, Type type, std::int64_t room, const std::string& what = "matrix");
    /// Of entries that are there, which lie in the matrix; their memory may have room for more.
    Coo(const Shape& shape, Type type, std::int64_t entries, Buffer rows, Buffer columns, Buffer values);

    [[nodiscard]] const Shape& shape() const { return shape_; }
    [[nodiscard]] Type type() const { return type_; }
    [[nodiscard]] std::int64_t entries() const { return entries_; }

    /// Takes entries of the matrix's type that lie in it, for which there is room.
    void add(const Entries& entries);
    /// The same of several pieces, one behind the other.
    void add(std::span<const EntryPiece> pieces, int threads);

    template <class I>
    [[nodiscard]] const I* rows_as() const {
        return reinterpret_cast<const I*>(rows_.data());
    }
    template <class I>
    [[nodiscard]] const I* columns_as() const {
        return reinterpret_cast<const I*>(columns_.data());
    }
    [[nodiscard]] const std::byte* values() const { return values_.data(); }

    /// Bytes of so many entries, an index of the row, one of the column and a value each.
    static std::uint64_t bytes(const Shape& shape, Type type, std::int64_t entries);

    /// What is held, to go on with: the columns and the values.
    [[nodiscard]] Buffer take_columns() { return std::move(columns_); }
    [[nodiscard]] Buffer take_values() { return std::move(values_); }

  private:
    Shape shape_;
    Type type_;
    std::int64_t room_;
    std::int64_t entries_ = 0;
    Buffer rows_;
    Buffer columns_;
    Buffer values_;
};

/// A place in a matrix.
struct Element {
    std::int64_t row = 0;
    std::int64_t col = 0;
    bool operator==(const Element&) const = default;
    bool operator<(const Element& other) const {
        return row != other.row ? row < other.row : col < other.col;
    }
};

/// What became of entries for the same element.
struct Merged {
    std::int64_t duplicates = 0;  ///< entries that went into another one
    /// Elements with several entries, of a type that is narrower than the one in which they have to be added:
    /// they hold the first of them. In the order of rows and columns.
    std::vector<Element> unadded;
};

/// Sorts entries by row and column, those for the same element in the order in which they came; `duplicates`
/// becomes how many follow another one. Throws Error{memory} naming `what`.
Csr sorted_rows(Coo entries, int threads, const std::string& what, std::int64_t& duplicates);

/// Sorts the columns of each row, stably; how many entries have the column of the one before them.
std::int64_t sort_columns(const MutableCsrView& rows, int threads);

/// Makes one entry of sorted ones for the same element, as `to_csr`. Leaves `duplicates` alone.
void merge_duplicates(Csr& sorted, const std::string& what, Merged& merged);

/// Sorts entries by row and column, and makes one of those for the same element. One that is the only one
/// other than zero stays as it is; several are added exactly (floats narrower than f64 or c128: `merged` says
/// where that is still to be done). Zeros are entries like others. Throws Error{input}
/// naming `what` for a sum beyond the range of the type, Error{memory}.
Csr to_csr(Coo entries, int threads, const std::string& what, Merged& merged);

/// Adds the elements that `to_csr` left `unadded` in `matrix`: from the same entries in f64 or c128, exactly.
/// Throws as `to_csr`.
void add_again(const std::vector<Element>& unadded, const Coo& wide, const MutableCsrView& matrix,
               const std::string& what);

/// What `to_csr` takes at most, with the entries that it is given and the matrix that it makes.
std::uint64_t to_csr_bytes(const Shape& shape, Type type, std::int64_t entries);

}  // namespace gpumat
