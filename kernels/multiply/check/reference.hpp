#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/multiply/check/real_form.hpp"
#include "kernels/problem.hpp"

// The multiply that results are checked against: plain loops in i, k, j order over blocks that stay in the
// cache, more precise than any level and independent of the levels' code.
//
//  - f16, bf16, f32, c64: in double. Products are exact; the sum errs by at most K·2^−53 of the terms.
//  - f64, c128: in twice the precision of double. A fused multiply-add gives the error of each product,
//    Knuth's two-sum the error of each addition, and these are summed beside the sum (Dot2 of Ogita, Rump
//    and Oishi). Sum + correction errs by at most 2·(K·2^−53)² of the terms.
//  - integers: exactly, modulo 2^64.
//
// Complex elements are two real ones, which are computed and judged each for itself.

namespace gpumat {

/// A value as an unevaluated sum of two doubles.
struct Twofold {
    double high = 0;
    double low = 0;

    /// Adds x·y with an error of a few 2^−106 of the terms.
    void add_product(double x, double y);

    /// The nearest double, or what the high part says where it is not finite.
    [[nodiscard]] double value() const;
};

/// The real or imaginary part of an element of C, with what its error bounds need. Sums and moduli are of
/// real products and of the parts of scalars and D.
struct ReferencePart {
    Twofold value;
    double terms = 0;  ///< S = |α|·Σ|t| + |β·D|, over the products t of op(A)·op(B)
    /// |α|·√Σs², the expectation of the sum of the squares of the partial sums s when the products are added
    /// in random order: K·p²/3 + K·q²/6, with p = Σt and q² = Σt²; and q² for the roundings of the products.
    double walk = 0;
    double root_squares = 0;  ///< |α|·q
    double scaled = 0;        ///< |α·p| + |β·D|, which scaling and adding D round
};

/// One element of C. `im` is zero for real types.
struct ReferenceElement {
    ReferencePart re;
    ReferencePart im;

    [[nodiscard]] std::complex<double> value() const { return {re.value.value(), im.value.value()}; }
};

/// α and β as the levels use them: rounded to f32 for the types that sum in f32.
struct ReferenceScalars {
    std::complex<double> alpha;
    std::complex<double> beta;
    bool complex;
    double steps;  ///< real products in a part of an element

    explicit ReferenceScalars(const Problem& problem);
};

/// What is summed for each element of a tile, at most kTileRows rows of exactly kTileCols elements, of which
/// the first ones are set.
struct RealSums {
    std::vector<double> sum;
    std::vector<double> correction;  ///< zero for the types that sum in plain double
    std::vector<double> magnitude;   ///< Σ|t|
    std::vector<double> squares;     ///< Σt²
};
struct FloatTile {
    RealSums re;
    RealSums im;  ///< empty for real types
};
struct IntegerTile {
    std::vector<std::uint64_t> sum;  ///< modulo 2^64
    std::vector<double> estimate;    ///< the sum in double; empty where it was not asked for
};

/// Computes a tile of op(A)·op(B). For floating and complex types.
void reference_tile(const Problem& problem, const Operands& operands, const TilePlace& place,
                    FloatTile& tile);
/// The same for integers.
void reference_tile(const Problem& problem, const Operands& operands, const TilePlace& place, bool estimate,
                    IntegerTile& tile);

/// α·sum + β·d for an element of a tile. d is that element of D, 0 where β = 0.
ReferenceElement finish(const ReferenceScalars& scalars, const FloatTile& tile, std::size_t index,
                        std::complex<double> d);

}  // namespace gpumat
