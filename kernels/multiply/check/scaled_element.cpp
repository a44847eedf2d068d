#include "kernels/multiply/check/scaled_element.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/check/elements.hpp"
#include "kernels/multiply/check/part_sum.hpp"

namespace gpumat {
namespace {

/// value · 2^exponent, with a value of about 1, or one that is 0 or not finite.
struct ScaledReal {
    double value = 0;
    int exponent = 0;

    ScaledReal() = default;
    ScaledReal(double number) : value(number) {  // NOLINT: it is one
        if (number == 0 || !std::isfinite(number)) return;
        exponent = std::ilogb(number);
        value = std::ldexp(number, -exponent);
    }
};

/// The sums of the terms above 0, and of the moduli of those below.
struct SignedTerms {
    double above = 0;
    double below = 0;

    void add(double term) { (term > 0 ? above : below) += std::abs(term); }
    [[nodiscard]] double all() const { return above + below; }
    /// The terms that are above 0 when a factor multiplies them, without the factor.
    [[nodiscard]] SignedTerms with_sign_of(double factor) const {
        if (factor == 0) return {};
        return factor > 0 ? *this : SignedTerms{below, above};
    }
};

/// One part of an element of op(A)·op(B), divided by 2^exponent.
struct PartDot {
    Twofold sum;
    SignedTerms terms;
    int exponent = 0;

    [[nodiscard]] bool sum_is_finite() const { return std::isfinite(sum.high); }

    /// Brings the terms to about 1. They are finite and bound the sum.
    void normalize() {
        if (terms.all() == 0) return;
        const int more = std::ilogb(terms.all());
        for (double* value : {&sum.high, &sum.low, &terms.above, &terms.below})
            *value = std::ldexp(*value, -more);
        exponent += more;
    }

    /// As a tile of one element. The squares are not known: 0 stands for it.
    [[nodiscard]] RealSums sums(bool with_value) const {
        return {{with_value ? sum.high : 0}, {with_value ? sum.low : 0}, {terms.all()}, {0.0}};
    }
};

/// With both factors of every product divided by 2^down. The terms count every product where that is 1, else
/// only those of finite factors.
PartDot part_dot(const Problem& p, const Operands& operands, std::int64_t row, std::int64_t col, Part part,
                 int down) {
    PartDot dot;
    dot.exponent = 2 * down;
    visit_type(p.type, [&]<class T>(TypeTag<T>) {
        const auto a = operand_a<T>(p, operands);
        const auto b = operand_b<T>(p, operands);
        for (std::int64_t k = 0; k < p.k; ++k) {
            const std::complex<double> x = as_complex(a(row, k));
            const std::complex<double> y = as_complex(b(k, col));
            const bool finite = is_finite(x) && is_finite(y);
            const int by = finite ? -down : 0;  // else 0·∞ might come of it
            const auto add = [&](double from_a, double from_b) {
                from_a = std::ldexp(from_a, by);
                from_b = std::ldexp(from_b, by);
                dot.sum.add_product(from_a, from_b);
                if (finite || down == 0) dot.terms.add(from_a * from_b);
            };
            add(x.real(), part == Part::re ? y.real() : y.imag());
            if constexpr (kIsComplex<T>)
                part == Part::re ? add(-x.imag(), y.imag()) : add(x.imag(), y.real());
        }
    });
    return dot;
}

/// On a scale where its terms are finite, and about 1.
PartDot part_dot(const Problem& p, const Operands& operands, std::int64_t row, std::int64_t col, Part part) {
    PartDot dot = part_dot(p, operands, row, col, part, 0);
    if (!std::isfinite(dot.terms.all())) {
        // Factors of less than 2^492 make products and sums of less than 2^1024, for any K.
        constexpr int kDown = 532;
        dot = part_dot(p, operands, row, col, part, kDown);
    }
    dot.normalize();
    return dot;
}

/// The bound of underflow must stay finite on the scale of a part.
constexpr int kSmallestScale = -1000;

/// A part of an element as a sum of real terms, x·p + y·q + z·d + w·e, with p and q parts of op(A)·op(B).
struct RealTerms {
    ScaledReal x;
    const PartDot& p;
    ScaledReal y;
    const PartDot& q;
    ScaledReal z;
    ScaledReal d;
    ScaledReal w;
    ScaledReal e;
};

/// The exponent of the largest term, and x, y, z and w on that scale: 0 of a term that is none.
struct ScaledFactors {
    int exponent = 0;
    std::array<double, 4> factors{};

    explicit ScaledFactors(const RealTerms& t) {
        const auto terms_of = [](const PartDot& dot) {
            ScaledReal size = dot.terms.all();
            size.exponent += dot.exponent;
            return size;
        };
        const std::array terms = {std::pair(t.x, terms_of(t.p)), std::pair(t.y, terms_of(t.q)),
                                  std::pair(t.z, t.d), std::pair(t.w, t.e)};
        const auto is_there = [](const auto& term) {
            return term.first.value != 0 && term.second.value != 0;
        };
        const auto exponent_of = [](const auto& term) { return term.first.exponent + term.second.exponent; };
        if (std::ranges::none_of(terms, is_there)) return;
        exponent = kSmallestScale;
        for (const auto& term : terms)
            if (is_there(term)) exponent = std::max(exponent, exponent_of(term));
        for (std::size_t i = 0; i < terms.size(); ++i)
            if (is_there(terms[i]))
                factors[i] = std::ldexp(terms[i].first.value, exponent_of(terms[i]) - exponent);
    }
};

/// How far x·p + y·q + the added terms reach, where p and q are 2^exponent times what is given.
Reach reach_of(const RealTerms& t, double x, double y, const std::array<double, 2>& added, int exponent) {
    const SignedTerms first = t.p.terms.with_sign_of(t.x.value);
    const SignedTerms second = t.q.terms.with_sign_of(t.y.value);
    SignedTerms after;
    for (const double term : added) after.add(term);
    after.above += std::abs(x) * first.above + std::abs(y) * second.above;
    after.below += std::abs(x) * first.below + std::abs(y) * second.below;
    const auto furthest = [&](double sum, double left, double right) {
        return std::max(
            {std::ldexp(sum, exponent), std::ldexp(left, t.p.exponent), std::ldexp(right, t.q.exponent)});
    };
    return {furthest(after.above, first.above, second.above),
            furthest(after.below, first.below, second.below)};
}

/// What the bounds need comes from finite terms.
ScaledPart scaled_part(RealTerms t, double steps, bool finite_dots, bool finite_d) {
    const auto [d, e] = std::pair(t.d.value, t.e.value);
    if (!finite_d) t.d = t.e = {};
    const ScaledFactors scale(t);
    const auto [x, y, z, w] = scale.factors;
    const auto sum_of = [&](const PartDot& dot, bool with_value) {
        return PartSum(dot.sums(with_value), 0, steps);
    };
    ScaledPart scaled;
    scaled.exponent = scale.exponent;
    scaled.part =
        combined(x, sum_of(t.p, finite_dots), y, sum_of(t.q, finite_dots), z, t.d.value, w, t.e.value);
    scaled.reach = reach_of(t, x, y, {z * t.d.value, w * t.e.value}, scale.exponent);
    if (finite_dots && finite_d) return scaled;
    // An infinity stays one only beside a scalar that has not been scaled to 0.
    scaled.part.value = combined(finite_dots ? x : t.x.value, sum_of(t.p, true), finite_dots ? y : t.y.value,
                                 sum_of(t.q, true), finite_d ? z : t.z.value, d, finite_d ? w : t.w.value, e)
                            .value;
    return scaled;
}

}  // namespace

ScaledElement scaled_element(const Problem& problem, const Operands& operands, std::int64_t row,
                             std::int64_t col) {
    const ReferenceScalars scalars(problem);
    const auto [alpha, beta] = std::pair(scalars.alpha, scalars.beta);
    std::complex<double> d = 0;
    if (!problem.beta.is_zero(problem.type)) {
        visit_type(problem.type,
                   [&]<class T>(TypeTag<T>) { d = as_complex(element_of_d<T>(operands, row, col)); });
    }
    const PartDot re = part_dot(problem, operands, row, col, Part::re);
    const PartDot im = scalars.complex ? part_dot(problem, operands, row, col, Part::im) : PartDot{};
    const auto scaled = [&](const RealTerms& terms) {
        return scaled_part(terms, scalars.steps, re.sum_is_finite() && im.sum_is_finite(), is_finite(d));
    };
    ScaledElement element;
    element.re = scaled({alpha.real(), re, -alpha.imag(), im, beta.real(), d.real(), -beta.imag(), d.imag()});
    if (scalars.complex)
        element.im =
            scaled({alpha.real(), im, alpha.imag(), re, beta.real(), d.imag(), beta.imag(), d.real()});
    return element;
}

}  // namespace gpumat
