#include "kernels/multiply/check/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/parallel.hpp"
#include "kernels/check/elements.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kSteps = 64;    // that are packed at a time: a block of B is 128 KiB of doubles
constexpr std::int64_t kUnrolled = 4;  // steps between a load and a store of the sums
static_assert(kSteps % kUnrolled == 0, "a packed block is padded with zeros to whole groups of steps");

/// One row of a tile: sum(j) += a(k)·b(k, j) for all steps, with what is summed beside it.
struct Row {
    std::int64_t steps;  // a multiple of kUnrolled
    std::int64_t cols;
    const double* a;     // steps
    const double* b;     // steps × kTileCols
    double* sum;         // cols
    double* correction;  // cols; only where kTwofold
    double* magnitude;   // cols
    double* squares;     // cols
};

template <bool kTwofold>
[[gnu::always_inline]] inline void add_products(const Row& row) {
    double* __restrict sum = row.sum;
    double* __restrict correction = row.correction;
    double* __restrict magnitude = row.magnitude;
    double* __restrict squares = row.squares;
    for (std::int64_t k = 0; k < row.steps; k += kUnrolled) {
        const double* __restrict a = row.a + k;
        const double* __restrict b = row.b + k * kTileCols;
        for (std::int64_t j = 0; j < row.cols; ++j) {
            double s = sum[j];
            double c = kTwofold ? correction[j] : 0.0;
            double m = magnitude[j];
            double q = squares[j];
            for (std::int64_t u = 0; u < kUnrolled; ++u) {
                const double product = a[u] * b[u * kTileCols + j];
                const double next = s + product;
                if constexpr (kTwofold) {
                    const double product_error = __builtin_fma(a[u], b[u * kTileCols + j], -product);
                    const double part = next - s;
                    const double sum_error = (s - (next - part)) + (product - part);
                    c += product_error + sum_error;
                }
                m += __builtin_fabs(product);
                q += product * product;
                s = next;
            }
            sum[j] = s;
            if constexpr (kTwofold) correction[j] = c;
            magnitude[j] = m;
            squares[j] = q;
        }
    }
}

/// sum(j) += a(k)·b(k, j), integers in wrapping arithmetic.
template <class Number>
void add_plain_products(std::int64_t steps, std::int64_t cols, const Number* a, const Number* b,
                        Number* __restrict sum) {
    for (std::int64_t k = 0; k < steps; ++k) {
        for (std::int64_t j = 0; j < cols; ++j) sum[j] += a[k] * b[k * kTileCols + j];
    }
}

/// The rows and columns of a packed block.
template <class Number>
struct Packed {
    std::vector<Number> a = std::vector<Number>(static_cast<std::size_t>(kTileRows * kSteps));
    std::vector<Number> b = std::vector<Number>(static_cast<std::size_t>(kSteps * kTileCols));
};

std::int64_t padded(std::int64_t steps) {
    return (steps + kUnrolled - 1) / kUnrolled * kUnrolled;
}

template <bool kTwofold, class T>
[[gnu::always_inline]] inline void add_tile(const RealForm<T>& form, const TilePlace& place, RealSums& sums) {
    Packed<double> packed;
    for (std::int64_t step = 0; step < form.steps(); step += kSteps) {
        const std::int64_t steps = std::min(kSteps, form.steps() - step);
        form.pack(place, step, steps, kSteps, packed.a.data(), packed.b.data());
        for (std::int64_t i = 0; i < std::ssize(place.rows); ++i) {
            // What is left of the last group of steps counts as zero.
            std::fill(packed.a.data() + i * kSteps + steps, packed.a.data() + i * kSteps + padded(steps), 0);
        }
        std::fill(packed.b.data() + steps * kTileCols, packed.b.data() + padded(steps) * kTileCols, 0);
        for (std::int64_t i = 0; i < std::ssize(place.rows); ++i) {
            const std::int64_t at = i * kTileCols;
            add_products<kTwofold>({padded(steps), place.cols, packed.a.data() + i * kSteps, packed.b.data(),
                                    sums.sum.data() + at, sums.correction.data() + at,
                                    sums.magnitude.data() + at, sums.squares.data() + at});
        }
    }
}

// The same for any processor and for one with AVX2 and fused multiply-add, chosen at run time: without the
// instruction, each fused multiply-add is a call.
#if defined(__x86_64__)
template <bool kTwofold, class T>
[[gnu::target("avx2,fma"), gnu::flatten]] void add_tile_avx2(const RealForm<T>& form, const TilePlace& place,
                                                             RealSums& sums) {
    add_tile<kTwofold>(form, place, sums);
}
#endif

template <bool kTwofold, class T>
void real_sums(const RealForm<T>& form, const TilePlace& place, RealSums& sums) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return add_tile_avx2<kTwofold>(form, place, sums);
#endif
    add_tile<kTwofold>(form, place, sums);
}

/// Plain double is exact for the products of these types and far more precise than their sums.
bool sums_in_f32(Type type) {
    return type != Type::f64 && type != Type::c128;
}

std::complex<double> rounded_to_f32(std::complex<double> value) {
    return {static_cast<double>(static_cast<float>(value.real())),
            static_cast<double>(static_cast<float>(value.imag()))};
}

/// Converts an integer to the residue modulo 2^64 that it stands for.
template <class T>
std::uint64_t residue(T value) {
    return static_cast<std::uint64_t>(value);
}

/// The element of a type that is nearest to the reference.
template <class T>
T rounded(const ReferenceElement& element) {
    const std::complex<double> value = element.value();
    if constexpr (kIsComplex<T>) {
        using Part = typename T::value_type;
        return {static_cast<Part>(value.real()), static_cast<Part>(value.imag())};
    } else {
        return static_cast<T>(value.real());
    }
}

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

/// Computes a tile and stores its elements of C, each rounded once.
template <class T, class C>
void store_tile(const Problem& p, const Operands& operands, const TilePlace& place, C* c) {
    const bool add = !p.beta.is_zero(p.type);
    const ReferenceScalars scalars(p);
    std::conditional_t<std::is_integral_v<T>, IntegerTile, FloatTile> tile;
    if constexpr (std::is_integral_v<T>) {
        reference_tile(p, operands, place, false, tile);
    } else {
        reference_tile(p, operands, place, tile);
    }
    for (std::size_t i = 0; i < place.rows.size(); ++i) {
        for (std::int64_t j = 0; j < place.cols; ++j) {
            const auto index = i * static_cast<std::size_t>(kTileCols) + static_cast<std::size_t>(j);
            const std::int64_t at = place.rows[i] * p.n + place.col + j;
            const T added = add ? element_of_d<T>(operands, place.rows[i], place.col + j) : T{};
            if constexpr (std::is_integral_v<T>) {
                c[at] = static_cast<C>(residue(p.alpha.integer) * tile.sum[index] +
                                       residue(p.beta.integer) * residue(added));
            } else {
                c[at] = rounded<T>(finish(scalars, tile, index, as_complex(added)));
            }
        }
    }
}

}  // namespace

void Twofold::add_product(double x, double y) {
    const double product = x * y;
    const double product_error = __builtin_fma(x, y, -product);
    const double next = high + product;
    const double part = next - high;
    low += ((high - (next - part)) + (product - part)) + product_error;
    high = next;
}

double Twofold::value() const {
    return std::isfinite(high) ? high + low : high;
}

ReferenceScalars::ReferenceScalars(const Problem& problem)
    : alpha(problem.alpha.value),
      beta(problem.beta.value),
      complex(is_complex(problem.type)),
      steps(static_cast<double>(problem.k) * (complex ? 2 : 1)) {
    if (!complex) {
        alpha = alpha.real();
        beta = beta.real();
    }
    if (sums_in_f32(problem.type)) {
        alpha = rounded_to_f32(alpha);
        beta = rounded_to_f32(beta);
    }
}

void reference_tile(const Problem& problem, const Operands& operands, const TilePlace& place,
                    FloatTile& tile) {
    const auto elements = place.rows.size() * static_cast<std::size_t>(kTileCols);
    for (auto* sums : {&tile.re, &tile.im}) {
        const bool used = sums == &tile.re || is_complex(problem.type);
        for (auto* part : {&sums->sum, &sums->correction, &sums->magnitude, &sums->squares})
            part->assign(used ? elements : 0, 0.0);
    }
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_integral_v<T>) {
            constexpr bool kTwofold = std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>;
            real_sums<kTwofold>(RealForm<T>(problem, operands, Part::re), place, tile.re);
            if constexpr (kIsComplex<T>)
                real_sums<kTwofold>(RealForm<T>(problem, operands, Part::im), place, tile.im);
        }
    });
}

void reference_tile(const Problem& problem, const Operands& operands, const TilePlace& place, bool estimate,
                    IntegerTile& tile) {
    const auto elements = place.rows.size() * static_cast<std::size_t>(kTileCols);
    tile.sum.assign(elements, 0);
    tile.estimate.assign(estimate ? elements : 0, 0.0);
    const auto add = [&]<class Number>(const auto& form, Packed<Number>& packed, std::vector<Number>& sums) {
        for (std::int64_t step = 0; step < form.steps(); step += kSteps) {
            const std::int64_t steps = std::min(kSteps, form.steps() - step);
            form.pack(place, step, steps, kSteps, packed.a.data(), packed.b.data());
            for (std::int64_t i = 0; i < std::ssize(place.rows); ++i) {
                add_plain_products(steps, place.cols, packed.a.data() + i * kSteps, packed.b.data(),
                                   sums.data() + i * kTileCols);
            }
        }
    };
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T>) {
            const RealForm<T> form(problem, operands, Part::re);
            Packed<std::uint64_t> packed;
            add(form, packed, tile.sum);
            if (!estimate) return;
            Packed<double> approximate;
            add(form, approximate, tile.estimate);
        }
    });
}

namespace {

/// What an element of a tile says of one part of op(A)·op(B).
struct Sum {
    double high = 0;
    double low = 0;
    double terms = 0;
    double root_squares = 0;
    double walk = 0;

    Sum() = default;
    Sum(const RealSums& sums, std::size_t index, double steps)
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
ReferencePart combined(double x, const Sum& left, double y, const Sum& right, double z, double d, double w,
                       double e) {
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

}  // namespace

ReferenceElement finish(const ReferenceScalars& scalars, const FloatTile& tile, std::size_t index,
                        std::complex<double> d) {
    const auto [alpha, beta] = std::pair(scalars.alpha, scalars.beta);
    const Sum re(tile.re, index, scalars.steps);
    if (!scalars.complex) return {combined(alpha.real(), re, 0, {}, beta.real(), d.real(), 0, 0), {}};
    const Sum im(tile.im, index, scalars.steps);
    return {combined(alpha.real(), re, -alpha.imag(), im, beta.real(), d.real(), -beta.imag(), d.imag()),
            combined(alpha.real(), im, alpha.imag(), re, beta.real(), d.imag(), beta.imag(), d.real())};
}

namespace {

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
        return Sum(dot.sums(with_value), 0, steps);
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

Matrix reference_multiply(const Problem& asked, const Operands& operands, int threads) {
    const Problem problem = as_read(asked);
    Matrix result({problem.m, problem.n}, result_type(problem), "reference");
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        parallel_for(problem.m, kTileRows, threads, [&](std::int64_t begin, std::int64_t end) {
            std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
            std::iota(rows.begin(), rows.end(), begin);
            for (std::int64_t col = 0; col < problem.n; col += kTileCols) {
                const TilePlace place{rows, col, std::min(kTileCols, problem.n - col)};
                visit_result<T>(problem, [&]<class C>(TypeTag<C>) {
                    store_tile<T>(problem, operands, place, result.as<C>());
                });
            }
        });
    });
    return result;
}

}  // namespace gpumat
