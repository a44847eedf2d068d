#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/problem.hpp"
#include "lib/core/matrix.hpp"

// The multiply that results are checked against: plain loops in i, k, j order over blocks that stay in the
// cache, more precise than any level and independent of the levels' code.
//
//  - f16, bf16, f32, c64: in double. Products are exact; the sum errs by at most K·2^−53 of the terms.
//  - f64, c128: in twice the precision of double. A fused multiply-add gives the error of each product,
//    Knuth's two-sum the error of each addition, and these are summed beside the sum (Dot2 of Ogita, Rump
//    and Oishi). Sum + correction errs by at most 2·(K·2^−53)² of the terms.
//  - integers: exactly, modulo 2^64.

namespace gpumat {

/// A value as an unevaluated sum of two doubles.
struct Twofold {
    double high = 0;
    double low = 0;

    /// Adds x·y with an error of a few 2^−106 of the terms.
    void add_product(double x, double y);
};

/// One element of C with what its error bound needs.
struct ReferenceElement {
    Twofold re;
    Twofold im;                ///< zero for real types
    double product_terms = 0;  ///< (|A|·|B|)(i, j), moduli for complex types
    double terms = 0;          ///< S = |α|·(|A|·|B|) + |β|·|D|

    /// The nearest double, or what the high parts say where they are not finite.
    [[nodiscard]] std::complex<double> value() const;
};

/// α and β as the levels use them: rounded to f32 for the types that sum in f32.
struct ReferenceScalars {
    std::complex<double> alpha;
    std::complex<double> beta;

    explicit ReferenceScalars(const Problem& problem);
};

/// The most rows and columns of a tile of C that is computed in one go.
inline constexpr std::int64_t kReferenceTileRows = 32;
inline constexpr std::int64_t kReferenceTileCols = 256;

/// A tile of op(A)·op(B), at most kReferenceTileRows rows of exactly kReferenceTileCols elements, of which
/// the first ones are set.
struct FloatTile {
    std::vector<double> sum;
    std::vector<double> correction;  ///< zero for the types that sum in plain double
    std::vector<double> sum_imag;    ///< empty for real types, as the next
    std::vector<double> correction_imag;
    std::vector<double> magnitude;  ///< |A|·|B|
};
struct IntegerTile {
    std::vector<std::uint64_t> sum;  ///< modulo 2^64
    std::vector<double> estimate;    ///< the sum in double; empty where it was not asked for
};

/// Computes a tile: any rows of C, columns [col, col + cols). For floating and complex types.
void reference_tile(const Problem& problem, const Operands& operands, std::span<const std::int64_t> rows,
                    std::int64_t col, std::int64_t cols, FloatTile& tile);
/// The same for integers.
void reference_tile(const Problem& problem, const Operands& operands, std::span<const std::int64_t> rows,
                    std::int64_t col, std::int64_t cols, bool estimate, IntegerTile& tile);

/// α·sum + β·d for an element of a tile. d is that element of D, 0 where β = 0.
ReferenceElement finish(const ReferenceScalars& scalars, const FloatTile& tile, std::size_t index,
                        std::complex<double> d);

/// An element whose terms may pass the range of double: its value is element · 2^exponent.
struct ScaledElement {
    ReferenceElement element;
    int exponent = 0;
};

/// One element on a scale of its own, where its terms are about 1: finite wherever the inputs are, and an
/// infinity or NaN as the inputs' own ones make it. Only finite terms count in `terms` and `product_terms`.
/// Slow: a dot product in scalar arithmetic.
ScaledElement scaled_element(const Problem& problem, const Operands& operands, std::int64_t row,
                             std::int64_t col);

/// C of the problem, each element rounded once from the reference (integers wrap). `operands.c` is not used.
Matrix reference_multiply(const Problem& problem, const Operands& operands, int threads);

}  // namespace gpumat
