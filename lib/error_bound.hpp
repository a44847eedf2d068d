#pragma once

#include <optional>

#include "kernels/problem.hpp"
#include "lib/reference.hpp"

namespace gpumat {

/// How far a floating-point or complex result may be from the reference.
///
/// A term a·b of an element passes at most K + 2 roundings, in whatever order the level adds: its product,
/// K − 1 additions, α, and the sum with β·D (which passes 2). With round to nearest, a sum of products then
/// errs by at most (number of roundings)·u·S (Rump and Jeannerod, 2013, without terms of higher order for the
/// dot product; one rounding more than counted pays for those of α and β). Types that sum in f32 are allowed
/// 2u for each rounding, because tensor cores truncate instead. Each part of a complex element is a sum of
/// 2·K real products; moduli cost a factor √2, taken as 1.5 with its terms of higher order. The error of the
/// reference and the rounding of the bound itself are added. Gradual underflow adds at most the smallest
/// subnormal for each product and each scaling. f16 and bf16 are rounded once more when they are stored.
class ErrorBound {
  public:
    ErrorBound(const Problem& problem, std::optional<double> tolerance);

    /// For one element with these terms S whose reference has this modulus, all divided by 2^exponent.
    [[nodiscard]] double element(double terms, double modulus, int exponent = 0) const;

    /// For the sum of the errors in a row of C, with S and |C| summed over the row, when both sides are
    /// evaluated in double from random ±1.
    [[nodiscard]] double row(double terms, double moduli) const;

    /// Whether a sum with these terms may overflow on the way, so that C may be infinite or NaN. The element
    /// is given divided by 2^exponent.
    [[nodiscard]] bool sum_may_overflow(const ReferenceElement& element, int exponent) const;

    /// The modulus from which a sum rounds to an infinity of the output type.
    [[nodiscard]] double overflows_from() const { return overflows_from_; }

  private:
    double sum_ = 0;              ///< error of the accumulation, relative to S
    double reference_ = 0;        ///< error of the reference, relative to S
    double underflow_ = 0;        ///< absolute
    double output_roundoff_ = 0;  ///< of a conversion when storing; 0 where there is none
    double output_tiny_ = 0;      ///< smallest subnormal of the output type where it is converted to
    double largest_ = 0;          ///< of the type that sums have
    double overflows_from_ = 0;
    double row_evaluation_ = 0;  ///< error of evaluating a row in double, relative to S and |C|
    double row_length_ = 0;
    std::optional<double> tolerance_;
};

}  // namespace gpumat
