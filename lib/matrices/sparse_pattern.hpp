#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/matrices/generated_matrix.hpp"

namespace gpumat {

/// Where a generated sparse matrix has its entries: so many as were asked for, of which each row and each
/// place follow from the seed and the shape alone.
class SparsePattern {
  public:
    /// "uniform", "banded", "power-law".
    static std::span<const std::string_view> names();

    /// Nothing where the matrix does not ask for one by --pattern or --entries. Throws Error{usage}.
    static std::optional<SparsePattern> of(const GeneratedMatrix& wanted);

    [[nodiscard]] const Shape& shape() const { return shape_; }
    /// Of all rows.
    [[nodiscard]] std::int64_t entries() const { return wanted_; }
    [[nodiscard]] std::int64_t entries_of(std::int64_t row) const;
    /// The columns of a row, in their order.
    void columns_of(std::int64_t row, std::vector<std::int64_t>& columns) const;
    /// The number that the first entry of a row has among those that were asked for: where its random numbers
    /// begin.
    [[nodiscard]] std::int64_t first_of(std::int64_t row) const { return before(rank_of(row)); }

  private:
    enum class Kind { uniform, banded, power_law };

    SparsePattern(Kind kind, const GeneratedMatrix& wanted);
    /// Entries of the rows before that of rank `rank`.
    [[nodiscard]] std::int64_t before(std::int64_t rank) const;
    [[nodiscard]] std::int64_t rank_of(std::int64_t row) const;

    Kind kind_;
    Shape shape_;
    std::int64_t wanted_;
    std::uint64_t seed_;
    std::int64_t stride_ = 1;  ///< of ranks: without a common divisor with the rows
};

}  // namespace gpumat
