#include "lib/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lib/core/parallel.hpp"
#include "lib/elements.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kTileRows = kReferenceTileRows;
constexpr std::int64_t kTileCols = kReferenceTileCols;
constexpr std::int64_t kSteps = 64;    // of k that are packed at a time: a block of B is 128 KiB of doubles
constexpr std::int64_t kUnrolled = 4;  // steps of k between a load and a store of the sums
static_assert(kSteps % kUnrolled == 0, "a packed block is padded with zeros to whole groups of steps");

/// One row of a tile: sum(j) += a(k)·b(k, j) for all steps, with what is summed beside it.
struct Row {
    std::int64_t steps;  // a multiple of kUnrolled
    std::int64_t cols;
    const double* a;     // steps
    const double* b;     // steps × kTileCols
    double* sum;         // cols
    double* correction;  // cols; only where kTwofold
    double* magnitude;   // cols; only where kMagnitude
};

template <bool kTwofold, bool kMagnitude>
[[gnu::always_inline]] inline void add_products(const Row& row) {
    double* __restrict sum = row.sum;
    double* __restrict correction = row.correction;
    double* __restrict magnitude = row.magnitude;
    for (std::int64_t k = 0; k < row.steps; k += kUnrolled) {
        const double* __restrict a = row.a + k;
        const double* __restrict b = row.b + k * kTileCols;
        for (std::int64_t j = 0; j < row.cols; ++j) {
            double s = sum[j];
            double c = kTwofold ? correction[j] : 0.0;
            double m = kMagnitude ? magnitude[j] : 0.0;
            for (std::int64_t u = 0; u < kUnrolled; ++u) {
                const double product = a[u] * b[u * kTileCols + j];
                const double next = s + product;
                if constexpr (kTwofold) {
                    const double product_error = __builtin_fma(a[u], b[u * kTileCols + j], -product);
                    const double part = next - s;
                    const double sum_error = (s - (next - part)) + (product - part);
                    c += product_error + sum_error;
                }
                if constexpr (kMagnitude) m += __builtin_fabs(product);
                s = next;
            }
            sum[j] = s;
            if constexpr (kTwofold) correction[j] = c;
            if constexpr (kMagnitude) magnitude[j] = m;
        }
    }
}

// The same loop for any processor and for one with AVX2 and fused multiply-add, chosen at run time: without
// the instruction, each fused multiply-add is a call.
template <bool kTwofold, bool kMagnitude>
void add_products_portable(const Row& row) {
    add_products<kTwofold, kMagnitude>(row);
}
#if defined(__x86_64__)
template <bool kTwofold, bool kMagnitude>
[[gnu::target("avx2,fma")]] void add_products_avx2(const Row& row) {
    add_products<kTwofold, kMagnitude>(row);
}
#endif

using AddProducts = void (*)(const Row&);

template <bool kTwofold, bool kMagnitude>
AddProducts fastest_add_products() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return add_products_avx2<kTwofold, kMagnitude>;
    }
#endif
    return add_products_portable<kTwofold, kMagnitude>;
}

/// sum(j) += a(k)·b(k, j) in wrapping arithmetic.
void add_integer_products(std::int64_t steps, std::int64_t cols, const std::uint64_t* a,
                          const std::uint64_t* b, std::uint64_t* __restrict sum) {
    for (std::int64_t k = 0; k < steps; ++k) {
        for (std::int64_t j = 0; j < cols; ++j) sum[j] += a[k] * b[k * kTileCols + j];
    }
}

/// Which rows and columns of C a tile covers.
struct Place {
    std::span<const std::int64_t> rows;
    std::int64_t col;
    std::int64_t cols;
};

std::int64_t padded(std::int64_t steps) {
    return (steps + kUnrolled - 1) / kUnrolled * kUnrolled;
}

/// Copies op(A)(rows, k … k + steps) and op(B)(k … k + steps, columns) through `convert`; the rest of the
/// last group of steps is zero.
template <class T, class To, class Convert>
void pack(const Strided<T>& a, const Strided<T>& b, const Place& place, std::int64_t k, std::int64_t steps,
          const Convert& convert, std::vector<To>& packed_a, std::vector<To>& packed_b) {
    packed_a.assign(static_cast<std::size_t>(kTileRows * kSteps), To{});
    packed_b.assign(static_cast<std::size_t>(kSteps * kTileCols), To{});
    for (std::size_t i = 0; i < place.rows.size(); ++i) {
        To* to = packed_a.data() + static_cast<std::int64_t>(i) * kSteps;
        for (std::int64_t s = 0; s < steps; ++s) to[s] = convert(a(place.rows[i], k + s));
    }
    for (std::int64_t s = 0; s < steps; ++s) {
        To* to = packed_b.data() + s * kTileCols;
        for (std::int64_t j = 0; j < place.cols; ++j) to[j] = convert(b(k + s, place.col + j));
    }
}

struct Packed {
    std::vector<double> a;
    std::vector<double> b;
};

/// Adds the products of a packed block to every row of a tile.
void add_block(AddProducts add, const Place& place, std::int64_t steps, const Packed& packed,
               std::vector<double>& sum, std::vector<double>& correction, std::vector<double>& magnitude) {
    for (std::size_t i = 0; i < place.rows.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i);
        add({padded(steps), place.cols, packed.a.data() + row * kSteps, packed.b.data(),
             sum.data() + row * kTileCols, correction.data() + row * kTileCols,
             magnitude.data() + row * kTileCols});
    }
}

template <bool kTwofold, class T>
void real_tile(const Problem& p, const Operands& operands, const Place& place, FloatTile& tile) {
    const auto a = operand_a<T>(p, operands);
    const auto b = operand_b<T>(p, operands);
    const auto add = fastest_add_products<kTwofold, true>();
    const auto value = [](T x) { return static_cast<double>(x); };
    Packed packed;
    for (std::int64_t k = 0; k < p.k; k += kSteps) {
        const std::int64_t steps = std::min(kSteps, p.k - k);
        pack(a, b, place, k, steps, value, packed.a, packed.b);
        add_block(add, place, steps, packed, tile.sum, tile.correction, tile.magnitude);
    }
}

template <bool kTwofold, class T>
void complex_tile(const Problem& p, const Operands& operands, const Place& place, FloatTile& tile) {
    const auto a = operand_a<T>(p, operands);
    const auto b = operand_b<T>(p, operands);
    const auto add = fastest_add_products<kTwofold, false>();
    const auto add_moduli = fastest_add_products<false, false>();
    Packed re;
    Packed im;
    Packed moduli;
    for (std::int64_t k = 0; k < p.k; k += kSteps) {
        const std::int64_t steps = std::min(kSteps, p.k - k);
        pack(
            a, b, place, k, steps, [](T x) { return as_complex(x).real(); }, re.a, re.b);
        pack(
            a, b, place, k, steps, [](T x) { return as_complex(x).imag(); }, im.a, im.b);
        pack(
            a, b, place, k, steps, [](T x) { return modulus(as_complex(x)); }, moduli.a, moduli.b);
        add_block(add_moduli, place, steps, moduli, tile.magnitude, tile.correction, tile.magnitude);
        add_block(add, place, steps, re, tile.sum, tile.correction, tile.magnitude);
        std::swap(re.b, im.b);  // the mixed products: re(A)·im(B), im(A)·re(B)
        add_block(add, place, steps, re, tile.sum_imag, tile.correction_imag, tile.magnitude);
        add_block(add, place, steps, im, tile.sum_imag, tile.correction_imag, tile.magnitude);
        std::swap(re.b, im.b);
        for (double& x : im.a) x = -x;
        add_block(add, place, steps, im, tile.sum, tile.correction, tile.magnitude);
    }
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

std::complex<double> scaled_by(std::complex<double> value, int exponent) {
    return {std::ldexp(value.real(), exponent), std::ldexp(value.imag(), exponent)};
}

/// Scales a value to a modulus of about 1 and returns the exponent that was taken out; 0 for zero and for
/// what is not finite.
int normalize(std::complex<double>& value) {
    const double largest = std::max(std::abs(value.real()), std::abs(value.imag()));
    if (!(largest > 0) || !std::isfinite(modulus(value))) return 0;
    const int exponent = std::ilogb(largest);
    value = scaled_by(value, -exponent);
    return exponent;
}

/// The same for a tile of one element, whose magnitude is finite and bounds the sums.
int normalize(FloatTile& dot) {
    if (dot.magnitude[0] == 0) return 0;
    const int exponent = std::ilogb(dot.magnitude[0]);
    for (auto* part : {&dot.sum, &dot.correction, &dot.sum_imag, &dot.correction_imag, &dot.magnitude}) {
        for (double& value : *part) value = std::ldexp(value, -exponent);
    }
    return exponent;
}

/// A tile of one element, with both factors of every product scaled by 2^exponent. The magnitude counts every
/// term where the exponent is 0, else only those of finite factors.
FloatTile scaled_dot(const Problem& p, const Operands& operands, std::int64_t row, std::int64_t col,
                     int exponent) {
    Twofold re;
    Twofold im;
    double magnitude = 0;
    visit_type(p.type, [&]<class T>(TypeTag<T>) {
        const auto a = operand_a<T>(p, operands);
        const auto b = operand_b<T>(p, operands);
        for (std::int64_t k = 0; k < p.k; ++k) {
            std::complex<double> x = as_complex(a(row, k));
            std::complex<double> y = as_complex(b(k, col));
            if (std::isfinite(modulus(x)) && std::isfinite(modulus(y))) {  // else 0·∞ might come of it
                x = scaled_by(x, exponent);
                y = scaled_by(y, exponent);
            }
            re.add_product(x.real(), y.real());
            if constexpr (kIsComplex<T>) {
                re.add_product(-x.imag(), y.imag());
                im.add_product(x.real(), y.imag());
                im.add_product(x.imag(), y.real());
            }
            const double term = modulus(x) * modulus(y);
            if (exponent == 0 || std::isfinite(term)) magnitude += term;
        }
    });
    if (!is_complex(p.type)) return {{re.high}, {re.low}, {}, {}, {magnitude}};
    return {{re.high}, {re.low}, {im.high}, {im.low}, {magnitude}};
}

/// Computes a tile and stores its elements of C, each rounded once.
template <class T>
void store_tile(const Problem& p, const Operands& operands, const Place& place, T* c) {
    const auto* d = p.beta.is_zero(p.type) ? nullptr : static_cast<const T*>(operands.d);
    const ReferenceScalars scalars(p);
    std::conditional_t<std::is_integral_v<T>, IntegerTile, FloatTile> tile;
    if constexpr (std::is_integral_v<T>) {
        reference_tile(p, operands, place.rows, place.col, place.cols, false, tile);
    } else {
        reference_tile(p, operands, place.rows, place.col, place.cols, tile);
    }
    for (std::size_t i = 0; i < place.rows.size(); ++i) {
        for (std::int64_t j = 0; j < place.cols; ++j) {
            const auto index = i * static_cast<std::size_t>(kTileCols) + static_cast<std::size_t>(j);
            const std::int64_t at = place.rows[i] * p.n + place.col + j;
            const T added = d == nullptr ? T{} : d[at];
            if constexpr (std::is_integral_v<T>) {
                c[at] = static_cast<T>(residue(p.alpha.integer) * tile.sum[index] +
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

std::complex<double> ReferenceElement::value() const {
    const auto part = [](const Twofold& x) { return std::isfinite(x.high) ? x.high + x.low : x.high; };
    return {part(re), part(im)};
}

ReferenceScalars::ReferenceScalars(const Problem& problem)
    : alpha(problem.alpha.value), beta(problem.beta.value) {
    if (!is_complex(problem.type)) {
        alpha = alpha.real();
        beta = beta.real();
    }
    if (sums_in_f32(problem.type)) {
        alpha = rounded_to_f32(alpha);
        beta = rounded_to_f32(beta);
    }
}

void reference_tile(const Problem& problem, const Operands& operands, std::span<const std::int64_t> rows,
                    std::int64_t col, std::int64_t cols, FloatTile& tile) {
    const auto elements = rows.size() * static_cast<std::size_t>(kTileCols);
    for (auto* part : {&tile.sum, &tile.correction, &tile.magnitude}) part->assign(elements, 0.0);
    for (auto* part : {&tile.sum_imag, &tile.correction_imag}) {
        part->assign(is_complex(problem.type) ? elements : 0, 0.0);
    }
    const Place place{rows, col, cols};
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_same_v<T, std::complex<double>>) {
            complex_tile<true, T>(problem, operands, place, tile);
        } else if constexpr (kIsComplex<T>) {
            complex_tile<false, T>(problem, operands, place, tile);
        } else if constexpr (std::is_same_v<T, double>) {
            real_tile<true, T>(problem, operands, place, tile);
        } else if constexpr (!std::is_integral_v<T>) {
            real_tile<false, T>(problem, operands, place, tile);
        }
    });
}

void reference_tile(const Problem& problem, const Operands& operands, std::span<const std::int64_t> rows,
                    std::int64_t col, std::int64_t cols, bool estimate, IntegerTile& tile) {
    const auto elements = rows.size() * static_cast<std::size_t>(kTileCols);
    tile.sum.assign(elements, 0);
    tile.estimate.assign(estimate ? elements : 0, 0.0);
    const Place place{rows, col, cols};
    const auto add = fastest_add_products<false, false>();
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T>) {
            const auto a = operand_a<T>(problem, operands);
            const auto b = operand_b<T>(problem, operands);
            std::vector<std::uint64_t> packed_a;
            std::vector<std::uint64_t> packed_b;
            Packed approximate;
            for (std::int64_t k = 0; k < problem.k; k += kSteps) {
                const std::int64_t steps = std::min(kSteps, problem.k - k);
                pack(a, b, place, k, steps, residue<T>, packed_a, packed_b);
                for (std::size_t i = 0; i < rows.size(); ++i) {
                    const auto row = static_cast<std::int64_t>(i);
                    add_integer_products(steps, cols, packed_a.data() + row * kSteps, packed_b.data(),
                                         tile.sum.data() + row * kTileCols);
                }
                if (!estimate) continue;
                pack(
                    a, b, place, k, steps, [](T x) { return static_cast<double>(x); }, approximate.a,
                    approximate.b);
                add_block(add, place, steps, approximate, tile.estimate, tile.estimate, tile.estimate);
            }
        }
    });
}

ReferenceElement finish(const ReferenceScalars& scalars, const FloatTile& tile, std::size_t index,
                        std::complex<double> d) {
    const auto [alpha, beta] = std::pair(scalars.alpha, scalars.beta);
    ReferenceElement element;
    const bool complex = !tile.sum_imag.empty();
    // The correction of a sum that overflowed is NaN; it means nothing then.
    const auto correction = [](double sum, double low) { return std::isfinite(sum) ? low : 0.0; };
    const double sum = tile.sum[index];
    const double low = correction(sum, tile.correction[index]);
    element.re.add_product(alpha.real(), sum);
    element.re.low += alpha.real() * low;
    element.re.add_product(beta.real(), d.real());
    if (complex) {
        const double sum_imag = tile.sum_imag[index];
        const double low_imag = correction(sum_imag, tile.correction_imag[index]);
        element.re.add_product(-alpha.imag(), sum_imag);
        element.re.low -= alpha.imag() * low_imag;
        element.re.add_product(-beta.imag(), d.imag());
        element.im.add_product(alpha.real(), sum_imag);
        element.im.add_product(alpha.imag(), sum);
        element.im.low += alpha.real() * low_imag + alpha.imag() * low;
        element.im.add_product(beta.real(), d.imag());
        element.im.add_product(beta.imag(), d.real());
    }
    element.product_terms = tile.magnitude[index];
    element.terms = std::abs(alpha) * element.product_terms + std::abs(beta) * std::abs(d);
    return element;
}

/// The bound of underflow must stay finite on the scale of an element.
constexpr int kSmallestScale = -1000;

ScaledElement scaled_element(const Problem& problem, const Operands& operands, std::int64_t row,
                             std::int64_t col) {
    int dot_exponent = 0;
    FloatTile dot = scaled_dot(problem, operands, row, col, 0);
    if (!std::isfinite(dot.magnitude[0])) {
        // Factors of less than 2^492 make products and sums of less than 2^1024, for any K.
        constexpr int kDown = 532;
        dot = scaled_dot(problem, operands, row, col, -kDown);
        dot_exponent = 2 * kDown;
    }
    std::complex<double> d = 0;
    if (!problem.beta.is_zero(problem.type)) {
        visit_type(problem.type, [&]<class T>(TypeTag<T>) {
            d = as_complex(static_cast<const T*>(operands.d)[row * problem.n + col]);
        });
    }
    ReferenceScalars scalars(problem);
    dot_exponent += normalize(dot);
    const int left = normalize(scalars.alpha) + dot_exponent;
    const int right = normalize(scalars.beta) + normalize(d);
    const bool has_left = scalars.alpha != 0.0 && dot.magnitude[0] > 0;
    const bool finite_d = std::isfinite(modulus(d));
    const bool has_right = scalars.beta != 0.0 && d != 0.0 && finite_d;
    ScaledElement scaled;
    scaled.exponent = has_left && has_right ? std::max(left, right) : has_left ? left : has_right ? right : 0;
    scaled.exponent = std::max(scaled.exponent, kSmallestScale);
    const double left_terms = std::abs(scalars.alpha) * dot.magnitude[0];
    const double right_terms = finite_d ? std::abs(scalars.beta) * modulus(d) : 0.0;
    // An infinity stays one only beside a scalar that has not been scaled to 0.
    const bool finite_sum =
        std::isfinite(dot.sum[0]) && (dot.sum_imag.empty() || std::isfinite(dot.sum_imag[0]));
    if (finite_sum) scalars.alpha = scaled_by(scalars.alpha, left - scaled.exponent);
    if (finite_d) scalars.beta = scaled_by(scalars.beta, right - scaled.exponent);
    scaled.element = finish(scalars, dot, 0, d);
    scaled.element.product_terms = std::ldexp(dot.magnitude[0], dot_exponent - scaled.exponent);
    scaled.element.terms =
        std::ldexp(left_terms, left - scaled.exponent) + std::ldexp(right_terms, right - scaled.exponent);
    return scaled;
}

Matrix reference_multiply(const Problem& asked, const Operands& operands, int threads) {
    const Problem problem = as_read(asked);
    Matrix result({problem.m, problem.n}, problem.type, "reference");
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        parallel_for(problem.m, kTileRows, threads, [&](std::int64_t begin, std::int64_t end) {
            std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
            std::iota(rows.begin(), rows.end(), begin);
            for (std::int64_t col = 0; col < problem.n; col += kTileCols) {
                store_tile(problem, operands, {rows, col, std::min(kTileCols, problem.n - col)},
                           result.as<T>());
            }
        });
    });
    return result;
}

}  // namespace gpumat
