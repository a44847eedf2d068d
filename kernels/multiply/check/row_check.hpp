#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/check/findings.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/multiply/check/error_bound.hpp"

namespace gpumat {

/// A row of C: its number, and its n elements.
struct ResultRow {
    std::int64_t row = 0;
    const std::byte* elements = nullptr;
};

/// Compares rows of C, element by element, with the reference. This decides whether a result is wrong.
class RowCheck {
  public:
    /// The operands' `c` is not used.
    RowCheck(const Problem& problem, const Operands& operands, const VerifyOptions& options);

    /// Every element of the rows. `wrong`, one for each row, is set to 1 where a row holds a wrong element.
    [[nodiscard]] Findings check(std::span<const ResultRow> rows, std::span<char> wrong) const;

    /// Whether errors as found in these rows, each of which may pass for a rounding error, are together more
    /// than the arithmetic makes: a lower precision than the stated one. Says in `note` how much more.
    [[nodiscard]] bool too_coarse(std::span<const ResultRow> rows, const Findings& found,
                                  std::string& note) const;

    [[nodiscard]] const ErrorBound& bound() const { return bound_; }

  private:
    const Problem& problem_;
    Operands operands_;
    ErrorBound bound_;
    bool may_wrap_;
    bool judges_precision_;
    int threads_;
};

/// The first byte of a row of a matrix.
inline const std::byte* row_of(Type type, const Operand& matrix, std::int64_t row) {
    return static_cast<const std::byte*>(matrix.data) +
           static_cast<std::size_t>(row * matrix.pitch) * size_of(type);
}

/// Rows [begin, begin + count) of a matrix.
inline Operand rows_of(Type type, Operand matrix, std::int64_t begin, std::int64_t count) {
    matrix.data = row_of(type, matrix, begin);
    matrix.rows = count;
    return matrix;
}

/// The rows of a panel of C whose first one has this number.
std::vector<ResultRow> result_rows(Type type, const Operand& panel, std::int64_t first);

}  // namespace gpumat
