#include "lib/error_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpumat {
namespace {

constexpr double kDoubleRoundoff = 0x1p-53;
constexpr double kFloatRoundoff = 0x1p-24;

/// The sums in the bound are themselves rounded: far less than this for any K and N that fit in memory.
constexpr double kInflate = 1 + 0x1p-10;

}  // namespace

ErrorBound::ErrorBound(const Problem& problem, std::optional<double> tolerance) : tolerance_(tolerance) {
    const auto k = static_cast<double>(problem.k);
    const bool twofold = problem.type == Type::f64 || problem.type == Type::c128;
    const bool complex = is_complex(problem.type);
    const double roundings = complex ? 2 * k + 4 : k + 3;
    const double moduli = complex ? 1.5 : 1;
    sum_ = moduli * roundings * (twofold ? kDoubleRoundoff : 2 * kFloatRoundoff);
    const double reference = moduli * roundings * kDoubleRoundoff;
    reference_ = twofold ? 2 * reference * reference : reference;

    const double tiny = twofold ? std::numeric_limits<double>::denorm_min()
                                : static_cast<double>(std::numeric_limits<float>::denorm_min());
    underflow_ = (complex ? 4 : 1) * tiny * (2 * k * std::abs(problem.alpha.value) + 4);
    largest_ =
        twofold ? std::numeric_limits<double>::max() : static_cast<double>(std::numeric_limits<float>::max());
    overflows_from_ = std::numeric_limits<double>::infinity();
    if (problem.type == Type::f16) {
        output_roundoff_ = 0x1p-11;
        output_tiny_ = 0x1p-24;
        overflows_from_ = 65520;
    } else if (problem.type == Type::bf16) {
        output_roundoff_ = 0x1p-8;
        output_tiny_ = 0x1p-133;
        overflows_from_ = 0x1.ffp127;
    }
    row_length_ = static_cast<double>(problem.n);
    row_evaluation_ = (complex ? 3 : 1) * (2 * k + row_length_ + 16) * kDoubleRoundoff;
}

double ErrorBound::element(double terms, double modulus, int exponent) const {
    if (tolerance_) return *tolerance_ * terms;
    const double sum = (sum_ + reference_) * terms + std::ldexp(underflow_, -exponent);
    return (sum + output_roundoff_ * (modulus + sum) + std::ldexp(output_tiny_, -exponent)) * kInflate;
}

double ErrorBound::row(double terms, double moduli) const {
    const double evaluation = row_evaluation_ * (terms + moduli);
    if (tolerance_) return *tolerance_ * terms + evaluation;
    // |C − sum| ≤ roundoff·|sum| bounds |sum| by |C| / (1 − roundoff), well under 2·|C|.
    return (sum_ * terms + evaluation + 2 * output_roundoff_ * moduli +
            row_length_ * (2 * underflow_ + output_tiny_)) *
           kInflate;
}

bool ErrorBound::sum_may_overflow(const ReferenceElement& element, int exponent) const {
    const double terms = std::max(element.terms, element.product_terms);
    return !(terms * (1 + sum_) * kInflate < std::ldexp(largest_, -exponent));
}

}  // namespace gpumat
