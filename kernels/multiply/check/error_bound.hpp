#pragma once

#include <optional>

#include "kernels/check/rounding.hpp"
#include "kernels/multiply/check/reference.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

/// How far a part of a floating-point or complex element may be from the reference.
/// kernels/check/verification.md derives both bounds.
///
/// The worst case: a term passes at most K + 3 roundings (2K + 6 in a part of a complex element), in whatever
/// order the level adds; each errs by u of what is rounded, 2u where sums are cut, and in sum by at most
/// (number of roundings)·u·S (Rump and Jeannerod 2013). Gradual underflow adds at most the smallest subnormal
/// for each product and each scaling, and storing f16 or bf16 a rounding.
///
/// The expected error: roundings are taken for independent and of mean zero, so that the error of the sums
/// passes λ·u·√Σs² with a probability of at most 2·exp(−λ²/2), λ = kTail (Higham and Mary 2019). What is cut
/// instead of rounded errs by up to 2u·Σ|s|, in groups of at least kCutTerms products. Scaling, underflow and
/// storing count as in the worst case.
class ErrorBound {
  public:
    /// 2·exp(−9²/2) = 5e−18 for each element.
    static constexpr double kTail = 9;
    /// Tensor cores add at least so many products before they cut (Fasi, Higham, Mikaitis and Pranesh 2021).
    static constexpr double kCutTerms = 4;

    ErrorBound(const Problem& problem, const Rounding& rounding, std::optional<double> tolerance);

    /// The worst case for a part whose values are all divided by 2^exponent.
    [[nodiscard]] double worst(const ReferencePart& part, int exponent = 0) const;

    /// The error from which on a part is wrong, at most the worst case. `replayed` is the largest error that
    /// orders of addition were seen to make (kernels/multiply/check/replay.hpp), of which four times as much
    /// is allowed.
    [[nodiscard]] double tolerance(const ReferencePart& part, double replayed = 0, int exponent = 0) const;

    /// The expected root mean square error of a part, from above.
    [[nodiscard]] double noise(const ReferencePart& part) const;

    /// Whether partial sums that reach so far may overflow, so that C may be infinite or NaN.
    [[nodiscard]] bool may_overflow(double reach) const;

    /// The modulus from which a sum rounds to an infinity of the output type.
    [[nodiscard]] double overflows_from() const { return overflows_from_; }

    [[nodiscard]] const Rounding& rounding() const { return rounding_; }

  private:
    [[nodiscard]] double stored(double sums, double modulus, int exponent) const;

    Rounding rounding_;
    double sum_ = 0;          ///< error of the accumulation, relative to S
    double reference_ = 0;    ///< error of the reference, relative to S
    double underflow_ = 0;    ///< absolute
    double output_tiny_ = 0;  ///< smallest subnormal of the output type where it is converted to
    double largest_ = 0;      ///< of the type that sums have
    double overflows_from_ = 0;
    double cut_ = 0;  ///< error of sums that are cut, relative to √Σs²
    std::optional<double> tolerance_;
};

}  // namespace gpumat
