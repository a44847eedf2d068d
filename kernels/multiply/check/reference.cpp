#include "kernels/multiply/check/reference.hpp"

#include <algorithm>
#include <cmath>

#include "core/numbers/two_sum.hpp"
#include "kernels/check/elements.hpp"
#include "kernels/multiply/check/part_sum.hpp"

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
                    c += product_error + rounded_off(s, product, next);
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

}  // namespace

void Twofold::add_product(double x, double y) {
    const double product = x * y;
    const double product_error = __builtin_fma(x, y, -product);
    const double next = high + product;
    low += rounded_off(high, product, next) + product_error;
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

ReferenceElement finish(const ReferenceScalars& scalars, const FloatTile& tile, std::size_t index,
                        std::complex<double> d) {
    const auto [alpha, beta] = std::pair(scalars.alpha, scalars.beta);
    const PartSum re(tile.re, index, scalars.steps);
    if (!scalars.complex) return {combined(alpha.real(), re, 0, {}, beta.real(), d.real(), 0, 0), {}};
    const PartSum im(tile.im, index, scalars.steps);
    return {combined(alpha.real(), re, -alpha.imag(), im, beta.real(), d.real(), -beta.imag(), d.imag()),
            combined(alpha.real(), im, alpha.imag(), re, beta.real(), d.imag(), beta.imag(), d.real())};
}

}  // namespace gpumat
