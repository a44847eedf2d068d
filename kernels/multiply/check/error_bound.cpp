#include "kernels/multiply/check/error_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpumat {
namespace {

constexpr double kDoubleRoundoff = 0x1p-53;

/// The sums in the bound are themselves rounded: far less than this for any K and N that fit in memory.
constexpr double kInflate = 1 + 0x1p-10;

/// Roundings of α·sum, of β·D and of their sum, in each part of a complex element.
constexpr double kScalings = 4;

}  // namespace

ErrorBound::ErrorBound(const Problem& problem, const Rounding& rounding, std::optional<double> tolerance)
    : rounding_(rounding), tolerance_(tolerance) {
    const bool twofold = problem.type == Type::f64 || problem.type == Type::c128;
    const bool complex = is_complex(problem.type);
    const double steps = static_cast<double>(problem.k) * (complex ? 2 : 1);
    const double roundings = steps + (complex ? 6 : 3);
    sum_ = roundings * rounding.sum_roundoff * (rounding.sums_are_cut ? 2 : 1) +
           2.01 * rounding.operand_roundoff;
    const double reference = roundings * kDoubleRoundoff;
    reference_ = twofold ? 2 * reference * reference : reference;
    cut_ = rounding.sums_are_cut ? 2 * rounding.sum_roundoff * std::sqrt(steps) / kCutTerms : 0;

    const double tiny = twofold ? std::numeric_limits<double>::denorm_min()
                                : static_cast<double>(std::numeric_limits<float>::denorm_min());
    const double alpha = std::abs(problem.alpha.value.real()) + std::abs(problem.alpha.value.imag());
    const double most = std::numeric_limits<double>::max();
    underflow_ = tiny * std::min(most, 2 * steps * alpha + 2 * kScalings);
    largest_ = twofold ? most : static_cast<double>(std::numeric_limits<float>::max());
    overflows_from_ = std::numeric_limits<double>::infinity();
    if (problem.type == Type::f16) {
        output_tiny_ = 0x1p-24;
        overflows_from_ = 65520;
    } else if (problem.type == Type::bf16) {
        output_tiny_ = 0x1p-133;
        overflows_from_ = 0x1.ffp127;
    }
}

double ErrorBound::stored(double sums, double modulus, int exponent) const {
    const double rounded = sums + rounding_.output_roundoff * (modulus + sums);
    const double tiny = underflow_ + output_tiny_;
    return (rounded + (exponent == 0 ? tiny : std::ldexp(tiny, -exponent))) * kInflate;  // ldexp is slow
}

double ErrorBound::worst(const ReferencePart& part, int exponent) const {
    if (tolerance_) return *tolerance_ * part.terms;
    return stored((sum_ + reference_) * part.terms, std::abs(part.value.value()), exponent);
}

double ErrorBound::tolerance(const ReferencePart& part, double replayed, int exponent) const {
    const double most = worst(part, exponent);
    if (tolerance_) return most;
    const double u = rounding_.sum_roundoff;
    const double walk =
        std::max(kTail * (u * part.walk + std::sqrt(2.0) * rounding_.operand_roundoff * part.root_squares),
                 4 * replayed);
    const double sums = walk + cut_ * part.walk + kScalings * u * part.scaled + reference_ * part.terms;
    return std::min(most, stored(sums, std::abs(part.value.value()), exponent));
}

double ErrorBound::noise(const ReferencePart& part) const {
    const double u = rounding_.sum_roundoff;
    const double operands = std::sqrt(2.0) * rounding_.operand_roundoff * part.root_squares;
    const double scaled = (u + rounding_.output_roundoff) * part.scaled;
    return u * part.walk + operands + cut_ * part.walk + scaled + underflow_ + output_tiny_;
}

bool ErrorBound::may_overflow(double reach) const {
    return !(reach * (1 + sum_) * kInflate < largest_);
}

}  // namespace gpumat
