#pragma once

#include <cstdint>
#include <vector>

#include "kernels/check/verification.hpp"
#include "kernels/multiply/check/verify_multiply.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

// Products with the tall matrix X of kFreivaldsRounds random columns, which randomized checks are made of.
// Each reads a matrix once, at the speed of the memory, and keeps kFreivaldsRounds numbers for each row.

/// Products with ±1, row by row. The rounding errors of evaluation are those of sums in blocks of 128.
struct SignProducts {
    std::vector<double> re;  ///< rows × kFreivaldsRounds
    std::vector<double> im;  ///< the same, or empty for zero
    /// Σ |x|²·weight over the elements x of a row; empty where it was not asked for.
    std::vector<double> squares;

    SignProducts() = default;
    SignProducts(std::int64_t rows, bool complex)
        : re(static_cast<std::size_t>(rows * kFreivaldsRounds)), im(complex ? re.size() : 0) {}
};

/// Random signs for so many rows. Multiplies of one seed have the same.
SignProducts random_signs(std::int64_t rows, std::uint64_t seed);

/// Some rows of a matrix: `cols` elements each, at `row_step` and `col_step` elements from each other.
struct RowsOf {
    Type type = Type::f32;
    const void* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t row_step = 0;
    std::int64_t col_step = 1;
};

/// Rows [first, first + count) of op(A); op(B); a panel of C or D.
RowsOf rows_of_a(const Problem& problem, const Operands& operands, std::int64_t first, std::int64_t count);
RowsOf rows_of_b(const Problem& problem, const Operands& operands);
RowsOf rows_of_panel(Type type, const Operand& panel);

enum class Squares {
    none,
    plain,    ///< of each element
    weighted  ///< times x.squares of its column
};

/// matrix·X for a floating-point or complex matrix.
SignProducts times(const RowsOf& matrix, const SignProducts& x, Squares squares, int threads);

/// matrix·X for integers, modulo 2^64.
using IntegerProducts = std::vector<std::uint64_t>;
IntegerProducts random_integers(std::int64_t rows, std::uint64_t seed);
IntegerProducts times(const RowsOf& matrix, const IntegerProducts& x, int threads);

}  // namespace gpumat
