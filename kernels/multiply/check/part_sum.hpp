#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/multiply/check/reference.hpp"

// A part of an element of C from what was summed for it.

namespace gpumat {

/// What an element of a tile says of one part of op(A)·op(B).
struct PartSum {
    double high = 0;
    double low = 0;
    double terms = 0;
    double root_squares = 0;
    double walk = 0;

    PartSum() = default;
    PartSum(const RealSums& sums, std::size_t index, double steps)
        : high(sums.sum[index]), terms(sums.magnitude[index]) {
        // The correction of a sum that overflowed is NaN; it means nothing then.
        low = std::isfinite(high) ? sums.correction[index] : 0.0;
        const double squares = sums.squares[index];
        // Squares that pass the range of double, or are not known: Σ|t| bounds their root.
        root_squares = squares > 0x1p-900 && squares < 0x1p1000 ? std::sqrt(squares) : terms;
        // Apart from the factor p or q, so that nothing passes the range that is within it.
        const double p = std::fabs(high);
        const double scale = std::max(p, root_squares);
        if (!(scale > 0) || !std::isfinite(scale)) {
            walk = scale;
            return;
        }
        const double p_part = p / scale;
        const double q_part = root_squares / scale;
        walk = scale * std::sqrt(steps * (p_part * p_part / 3 + q_part * q_part / 6) + q_part * q_part);
    }
};

/// x·left + y·right + z·d + w·e for real factors.
inline ReferencePart combined(double x, const PartSum& left, double y, const PartSum& right, double z,
                              double d, double w, double e) {
    ReferencePart part;
    part.value.add_product(x, left.high);
    part.value.low += x * left.low;
    part.value.add_product(z, d);
    const double added = std::fabs(z * d) + (w != 0 ? std::fabs(w * e) : 0);  // e may be infinite
    part.terms = std::fabs(x) * left.terms + added;
    part.walk = std::fabs(x) * left.walk;
    part.root_squares = std::fabs(x) * left.root_squares;
    part.scaled = std::fabs(x * left.high) + added;
    if (w != 0) part.value.add_product(w, e);
    if (y == 0) return part;
    part.value.add_product(y, right.high);
    part.value.low += y * right.low;
    part.terms += std::fabs(y) * right.terms;
    part.walk = std::hypot(part.walk, y * right.walk);
    part.root_squares = std::hypot(part.root_squares, y * right.root_squares);
    part.scaled += std::fabs(y * right.high);
    return part;
}

}  // namespace gpumat
