#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "kernels/check/elements.hpp"
#include "kernels/check/findings.hpp"
#include "kernels/multiply/check/error_bound.hpp"
#include "kernels/multiply/check/scaled_element.hpp"

// One element of a product beside its reference.

namespace gpumat {

/// Both NaN, or equal.
inline bool same_special(double x, double y) {
    return std::isnan(x) || std::isnan(y) ? std::isnan(x) && std::isnan(y) : x == y;
}

inline double ratio_of(double error, double bound) {
    if (error <= bound) return error == 0 ? 0 : error / bound;
    // error / bound can round to 1, and is NaN for a NaN.
    const double ratio = bound > 0 ? error / bound : std::numeric_limits<double>::infinity();
    return ratio > 1 ? ratio : std::nextafter(1.0, 2.0);
}

inline double distance(double computed, const Twofold& reference) {
    return std::abs((computed - reference.high) - reference.low);
}

/// What is right or wrong apart from its size.
inline Outcome right_or_wrong(bool right, std::complex<double> expected) {
    if (right) return {.expected = expected};
    return {.ratio = std::numeric_limits<double>::infinity(),
            .error = std::numeric_limits<double>::infinity(),
            .worst_ratio = std::numeric_limits<double>::infinity(),
            .expected = expected};
}

/// Compares elements of a floating-point or complex C with their reference.
class ElementCheck {
  public:
    ElementCheck(const Problem& problem, const Operands& operands, const ErrorBound& bound)
        : problem_(problem), operands_(operands), bound_(bound), complex_(is_complex(problem.type)) {}

    /// `replayed_re` and `replayed_im` are errors that orders of addition were seen to make.
    [[nodiscard]] Outcome operator()(const ReferenceElement& reference, std::complex<double> computed,
                                     std::int64_t row, std::int64_t col, double replayed_re = 0,
                                     double replayed_im = 0) const {
        const ComparedPart re = {reference.re, computed.real(), replayed_re};
        const ComparedPart im = {reference.im, computed.imag(), replayed_im};
        if (!is_within_range(re) || !is_within_range(im)) return beyond_range(re, im, row, col);
        Outcome outcome = judged(re);
        if (complex_) outcome = worse(outcome, judged(im));
        outcome.expected = reference.value();
        return outcome;
    }

  private:
    struct ComparedPart {
        const ReferencePart& reference;
        double computed;
        double replayed;
    };

    [[nodiscard]] bool is_within_range(const ComparedPart& part) const {
        return std::isfinite(part.computed) && std::isfinite(part.reference.value.value()) &&
               std::isfinite(bound_.worst(part.reference));
    }

    [[nodiscard]] Outcome judged(const ComparedPart& part) const {
        return judged(part.reference, part.computed, part.replayed, 0);
    }

    [[nodiscard]] Outcome judged(const ReferencePart& part, double computed, double replayed,
                                 int exponent) const {
        const double error = distance(computed, part.value);
        const double tolerance = bound_.tolerance(part, replayed, exponent);
        return {.ratio = ratio_of(error, tolerance),
                .error = error,
                .tolerance = tolerance,
                .worst_ratio = ratio_of(error, bound_.worst(part, exponent)),
                .expected = {}};
    }

    /// The part of the two that is more wrong, with the larger tolerance.
    static Outcome worse(const Outcome& x, const Outcome& y) {
        Outcome outcome = y.ratio > x.ratio ? y : x;
        outcome.worst_ratio = std::max(x.worst_ratio, y.worst_ratio);
        return outcome;
    }

    /// Whether a sum within the bound can round to the infinity that was stored. f16 and bf16 only.
    [[nodiscard]] bool reaches_infinity(const ReferencePart& expected, double computed, int exponent) const {
        return std::copysign(1.0, computed) * expected.value.value() + bound_.worst(expected, exponent) >=
               std::ldexp(bound_.overflows_from(), -exponent);
    }

    /// A part of an element whose inputs are finite. Its partial sums may overflow in the direction in which
    /// they reach so far, and become NaN where both are infinite, or a factor of 0 meets an infinity.
    [[nodiscard]] Outcome part_beyond_range(const ComparedPart& compared, const ScaledPart& scaled,
                                            const ScaledElement& element) const {
        if (is_within_range(compared)) return judged(compared);
        const auto& [part, reach, exponent] = scaled;
        const double computed = compared.computed;
        if (std::isfinite(computed)) {
            Outcome outcome = judged(part, std::ldexp(computed, -exponent), 0, exponent);
            outcome.error = std::ldexp(outcome.error, exponent);
            outcome.tolerance = std::ldexp(outcome.tolerance, exponent);
            return outcome;
        }
        if (!std::isnan(computed)) {
            const bool right = bound_.may_overflow(computed > 0 ? reach.up : reach.down) ||
                               reaches_infinity(part, computed, exponent);
            return right_or_wrong(right, {});
        }
        const bool right =
            complex_ ? overflows_anywhere(element) : bound_.may_overflow(std::min(reach.up, reach.down));
        return right_or_wrong(right, {});
    }

    [[nodiscard]] bool overflows_anywhere(const ScaledElement& scaled) const {
        return bound_.may_overflow(
            std::max({scaled.re.reach.up, scaled.re.reach.down, scaled.im.reach.up, scaled.im.reach.down}));
    }

    /// Something is not finite, or the terms pass the range of double: a second look, on scales where finite
    /// inputs stay finite. Each part has its own, or the larger one would leave the other without digits.
    [[nodiscard]] Outcome beyond_range(const ComparedPart& re, const ComparedPart& im, std::int64_t row,
                                       std::int64_t col) const {
        const std::complex<double> expected = {re.reference.value.value(), im.reference.value.value()};
        if (!complex_ && !is_finite(expected) && same_special(expected.real(), re.computed))
            return right_or_wrong(true, expected);
        const ScaledElement scaled = scaled_element(problem_, operands_, row, col);
        const std::complex<double> special = scaled.scaled_value();
        const std::complex<double> value = {std::ldexp(special.real(), scaled.re.exponent),
                                            std::ldexp(special.imag(), scaled.im.exponent)};
        if (is_finite(special)) {
            Outcome outcome = part_beyond_range(re, scaled.re, scaled);
            if (complex_) outcome = worse(outcome, part_beyond_range(im, scaled.im, scaled));
            outcome.expected = value;
            return outcome;
        }
        if (complex_) {
            Outcome outcome = worse(part_beside_special(re, special.real(), scaled),
                                    part_beside_special(im, special.imag(), scaled));
            outcome.expected = expected;
            return outcome;
        }
        // An infinity of the inputs must show, unless the finite terms can overflow to the opposite one.
        const bool agrees = same_special(special.real(), re.computed) ||
                            (std::isnan(re.computed) && overflows_anywhere(scaled));
        return right_or_wrong(agrees, value);
    }

    /// A part of a complex element whose inputs hold infinities or NaN. It may become NaN, where an infinity
    /// meets the 0 of a scalar's other part, and an infinity where plain arithmetic has NaN, as C's products
    /// of complex numbers do.
    [[nodiscard]] Outcome part_beside_special(const ComparedPart& part, double special,
                                              const ScaledElement& scaled) const {
        if (is_within_range(part)) return judged(part);
        const double computed = part.computed;
        if (std::isfinite(part.reference.value.value()) && std::isfinite(bound_.worst(part.reference)))
            return right_or_wrong(std::isnan(computed) || overflows_anywhere(scaled), {});
        if (std::isfinite(special)) return right_or_wrong(true, {});  // it overflows beside an infinity
        const bool right =
            std::isnan(computed) || computed == special || (std::isnan(special) && !std::isfinite(computed));
        return right_or_wrong(right, {});
    }

    const Problem& problem_;
    const Operands& operands_;
    const ErrorBound& bound_;
    bool complex_;
};

}  // namespace gpumat
