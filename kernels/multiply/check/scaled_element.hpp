#pragma once

#include <complex>
#include <cstdint>

#include "kernels/multiply/check/reference.hpp"
#include "kernels/problem.hpp"

// The reference of an element whose terms may pass the range of double.

namespace gpumat {

/// How far the partial sums of a part can get in either direction, before α and after it, in whatever order
/// the terms are added. Infinite where that passes the range of double.
struct Reach {
    double up = 0;
    double down = 0;
};

/// A part of an element whose terms may pass the range of double: its value is part · 2^exponent.
struct ScaledPart {
    ReferencePart part;
    Reach reach;
    int exponent = 0;
};

/// `im` is zero for real types.
struct ScaledElement {
    ScaledPart re;
    ScaledPart im;

    [[nodiscard]] std::complex<double> scaled_value() const {
        return {re.part.value.value(), im.part.value.value()};
    }
};

/// One element, each part on a scale of its own, where its terms are about 1: finite wherever the inputs are,
/// and an infinity or NaN as the inputs' own ones make it. Only finite terms count in what the bounds need.
/// Slow: a dot product in scalar arithmetic.
ScaledElement scaled_element(const Problem& problem, const Operands& operands, std::int64_t row,
                             std::int64_t col);

}  // namespace gpumat
