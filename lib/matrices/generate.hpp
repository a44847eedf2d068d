#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/numbers/matrix.hpp"
#include "core/sparse/csr.hpp"
#include "lib/matrices/sparse_pattern.hpp"

namespace gpumat {

/// A parameter of generated matrices: --low, --density …
struct GeneratedParameter {
    std::string_view name;
    std::string_view help;
};

/// A kind of matrix that can be generated.
struct GeneratedKind {
    std::string_view name;
    std::string_view summary;
    std::span<const std::string_view> parameters;  ///< by name; those that it takes
};

std::span<const GeneratedKind> generated_kinds();
std::span<const GeneratedParameter> generated_parameters();

/// Makes any block of a matrix of which nothing is stored. An element depends on the seed, its place and the
/// width of the matrix only, so that every machine, number of threads and order of blocks gives the same
/// bits. Numbers are computed in double precision and rounded once to the type.
class Generator {
  public:
    /// Throws Error{usage} for a kind or parameter that there is not or that the type cannot hold.
    explicit Generator(const GeneratedMatrix& wanted);

    [[nodiscard]] const Shape& shape() const { return shape_; }
    [[nodiscard]] Type type() const { return type_; }

    /// Where the entries are of a sparse matrix that is asked for by their number or pattern.
    [[nodiscard]] const std::optional<SparsePattern>& pattern() const { return pattern_; }
    /// Some rows of such a matrix.
    [[nodiscard]] Csr rows(std::int64_t begin, std::int64_t end) const;

    /// Fills `out`, which has the block's shape and the type.
    void fill(const Block& block, const MutableMatrixView& out, int threads) const;

  private:
    Shape shape_;
    Type type_;
    /// Puts `count` elements of a row, from a column on, at `out`.
    using FillRow =
        std::function<void(std::int64_t row, std::int64_t col, std::int64_t count, std::byte* out)>;
    FillRow fill_row_;
    std::optional<SparsePattern> pattern_;
    FillRow values_;  ///< of the entries of a pattern, which are a row of that
};

}  // namespace gpumat
