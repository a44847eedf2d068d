#include "lib/freivalds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "lib/core/parallel.hpp"
#include "lib/elements.hpp"
#include "lib/verify.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kRounds = kFreivaldsRounds;
constexpr std::int64_t kBlockRows = 32;
constexpr std::int64_t kBlockCols = 256;
constexpr std::int64_t kRowsAtOnce = 1 << 15;  // of C: its three products with X are at most 25 MB

/// A tall matrix of kRounds columns, and the bound on the moduli of what a row of it stands for.
struct Columns {
    std::vector<double> re;         // rows × kRounds
    std::vector<double> im;         // rows × kRounds, or empty for zero
    std::vector<double> magnitude;  // rows

    Columns(std::int64_t rows, bool complex)
        : re(static_cast<std::size_t>(rows * kRounds)),
          im(complex ? re.size() : 0),
          magnitude(static_cast<std::size_t>(rows)) {}
};

using Sums = std::array<double, kRounds>;

/// sums(r) += values(j)·x(j, r).
[[gnu::always_inline]] inline void add_weighted(std::int64_t count, const double* values, const double* x,
                                                Sums& sums) {
    Sums local = sums;
    for (std::int64_t j = 0; j < count; ++j) {
        for (std::int64_t r = 0; r < kRounds; ++r) {
            local[static_cast<std::size_t>(r)] += values[j] * x[j * kRounds + r];
        }
    }
    sums = local;
}

// The same loop for any processor and for one with wider registers, chosen at run time.
using AddWeighted = void (*)(std::int64_t, const double*, const double*, Sums&);
void add_weighted_portable(std::int64_t count, const double* values, const double* x, Sums& sums) {
    add_weighted(count, values, x, sums);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void add_weighted_avx2(std::int64_t count, const double* values, const double* x,
                                                   Sums& sums) {
    add_weighted(count, values, x, sums);
}
#endif
AddWeighted fastest_add_weighted() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return add_weighted_avx2;
#endif
    return add_weighted_portable;
}

/// matrix·X, with magnitude(i) = Σ |matrix(i, j)|·X.magnitude(j).
template <class T>
Columns times(const Strided<T>& matrix, std::int64_t rows, std::int64_t cols, const Columns& x, int threads) {
    constexpr bool kComplex = kIsComplex<T>;
    const auto add = fastest_add_weighted();
    Columns result(rows, kComplex);
    parallel_for(rows, kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
        std::array<double, kBlockCols> re{};
        std::array<double, kBlockCols> im{};
        std::array<double, kBlockCols> minus_im{};
        std::vector<Sums> sums(static_cast<std::size_t>(kBlockRows), Sums{});
        std::vector<Sums> sums_imag(sums);
        for (std::int64_t col = 0; col < cols; col += kBlockCols) {
            const std::int64_t count = std::min(kBlockCols, cols - col);
            const double* x_re = x.re.data() + col * kRounds;
            const double* x_im = x.im.empty() ? nullptr : x.im.data() + col * kRounds;
            for (std::int64_t i = begin; i < end; ++i) {
                double magnitude = 0;
                for (std::int64_t j = 0; j < count; ++j) {
                    const auto at = static_cast<std::size_t>(j);
                    const std::complex<double> value = as_complex(matrix(i, col + j));
                    re[at] = value.real();
                    im[at] = value.imag();
                    minus_im[at] = -value.imag();
                    magnitude += modulus(value) * x.magnitude[static_cast<std::size_t>(col + j)];
                }
                result.magnitude[static_cast<std::size_t>(i)] += magnitude;
                const auto row = static_cast<std::size_t>(i - begin);
                add(count, re.data(), x_re, sums[row]);
                if constexpr (kComplex) {
                    add(count, im.data(), x_re, sums_imag[row]);
                    if (x_im != nullptr) {
                        add(count, minus_im.data(), x_im, sums[row]);
                        add(count, re.data(), x_im, sums_imag[row]);
                    }
                }
            }
        }
        for (std::int64_t i = begin; i < end; ++i) {
            const auto row = static_cast<std::size_t>(i - begin);
            std::copy(sums[row].begin(), sums[row].end(), result.re.begin() + i * kRounds);
            if constexpr (kComplex) {
                std::copy(sums_imag[row].begin(), sums_imag[row].end(), result.im.begin() + i * kRounds);
            }
        }
    });
    return result;
}

Columns random_signs(std::int64_t rows, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Columns x(rows, false);
    for (std::int64_t j = 0; j < rows; ++j) {
        const std::uint64_t bits = random();
        for (std::int64_t r = 0; r < kRounds; ++r) {
            x.re[static_cast<std::size_t>(j * kRounds + r)] = ((bits >> r) & 1U) != 0 ? 1.0 : -1.0;
        }
        x.magnitude[static_cast<std::size_t>(j)] = 1;
    }
    return x;
}

/// The matrix from a row on.
template <class T>
Strided<T> from_row(const Strided<T>& matrix, std::int64_t row) {
    return {matrix.data + row * matrix.row_step, matrix.row_step, matrix.col_step};
}

/// Calls `rows(first, count)` for all rows of C, as many at a time as the work space is for.
template <class Rows>
void for_rows(std::int64_t count, const Rows& rows) {
    for (std::int64_t first = 0; first < count; first += kRowsAtOnce)
        rows(first, std::min(kRowsAtOnce, count - first));
}

/// C·X against α·op(A)·op(B)·X + β·D·X, from the three products, row by row.
std::vector<double> ratios_of(const ReferenceScalars& scalars, const ErrorBound& bound, const Columns& left,
                              const Columns& right, const Columns& added) {
    const auto value = [](const Columns& columns, std::size_t at) {
        return std::complex<double>(columns.re[at], columns.im.empty() ? 0.0 : columns.im[at]);
    };
    std::vector<double> ratios(left.magnitude.size());
    for (std::size_t i = 0; i < ratios.size(); ++i) {
        const double terms =
            std::abs(scalars.alpha) * right.magnitude[i] + std::abs(scalars.beta) * added.magnitude[i];
        const double limit = bound.row(terms, left.magnitude[i]);
        double error = 0;
        for (std::size_t at = i * kRounds; at < (i + 1) * kRounds; ++at) {
            const double distance = std::abs(
                value(left, at) - (scalars.alpha * value(right, at) + scalars.beta * value(added, at)));
            error = distance <= error ? error : distance;  // a NaN stays
            if (std::isnan(error)) break;
        }
        if (!std::isfinite(limit) || !std::isfinite(error)) {
            ratios[i] = std::numeric_limits<double>::quiet_NaN();
        } else {
            ratios[i] = error == 0 ? 0 : error / limit;
        }
    }
    return ratios;
}

template <class T>
void check_floating(const Problem& p, const Operands& operands, const ErrorBound& bound, int threads,
                    std::uint64_t seed, const TakeRatios& take) {
    const ReferenceScalars scalars(p);
    const Strided<T> a = operand_a<T>(p, operands);
    const Strided<T> c{static_cast<const T*>(operands.c), p.n, 1};
    const Strided<T> d{static_cast<const T*>(operands.d), p.n, 1};
    const Columns x = random_signs(p.n, seed);
    const Columns b_x = times(operand_b<T>(p, operands), p.k, p.n, x, threads);
    for_rows(p.m, [&](std::int64_t first, std::int64_t count) {
        const Columns left = times(from_row(c, first), count, p.n, x, threads);
        const Columns right = times(from_row(a, first), count, p.k, b_x, threads);
        const Columns added = p.beta.is_zero(p.type) ? Columns(count, kIsComplex<T>)
                                                     : times(from_row(d, first), count, p.n, x, threads);
        take(first, ratios_of(scalars, bound, left, right, added));
    });
}

/// matrix·X modulo 2^(bits of U).
template <class U, class T>
std::vector<U> times(const Strided<T>& matrix, std::int64_t rows, std::int64_t cols, const std::vector<U>& x,
                     int threads) {
    std::vector<U> result(static_cast<std::size_t>(rows * kRounds));
    parallel_for(rows, kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t col = 0; col < cols; col += kBlockCols) {
            const std::int64_t col_end = std::min(col + kBlockCols, cols);
            for (std::int64_t i = begin; i < end; ++i) {
                std::array<U, kRounds> sums{};
                for (std::int64_t j = col; j < col_end; ++j) {
                    const U value = static_cast<U>(static_cast<std::int64_t>(matrix(i, j)));
                    for (std::size_t r = 0; r < kRounds; ++r) {
                        sums[r] += value * x[static_cast<std::size_t>(j) * kRounds + r];
                    }
                }
                for (std::size_t r = 0; r < kRounds; ++r) {
                    result[static_cast<std::size_t>(i) * kRounds + r] += sums[r];
                }
            }
        }
    });
    return result;
}

template <class T>
void check_integers(const Problem& p, const Operands& operands, int threads, std::uint64_t seed,
                    const TakeRatios& take) {
    // Small integers are computed modulo 2^32 and compared modulo 2^bits.
    using U = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    using Narrow = std::make_unsigned_t<T>;
    std::mt19937_64 random(seed);
    std::vector<U> x(static_cast<std::size_t>(p.n * kRounds));
    for (std::size_t at = 0; at < x.size(); ++at) {
        x[at] = static_cast<U>(random());
        if (at % kRounds == 0) x[at] |= 1U;
    }
    const U alpha = static_cast<U>(p.alpha.integer);
    const U beta = static_cast<U>(p.beta.integer);
    const Strided<T> a = operand_a<T>(p, operands);
    const Strided<T> c{static_cast<const T*>(operands.c), p.n, 1};
    const Strided<T> d{static_cast<const T*>(operands.d), p.n, 1};
    const auto b_x = times<U>(operand_b<T>(p, operands), p.k, p.n, x, threads);
    for_rows(p.m, [&](std::int64_t first, std::int64_t count) {
        const auto left = times<U>(from_row(c, first), count, p.n, x, threads);
        const auto right = times<U>(from_row(a, first), count, p.k, b_x, threads);
        const auto added = p.beta.is_zero(p.type) ? std::vector<U>(left.size())
                                                  : times<U>(from_row(d, first), count, p.n, x, threads);
        std::vector<double> ratios(static_cast<std::size_t>(count));
        for (std::size_t at = 0; at < left.size(); ++at) {
            if (static_cast<Narrow>(left[at]) != static_cast<Narrow>(alpha * right[at] + beta * added[at]))
                ratios[at / kRounds] = std::numeric_limits<double>::infinity();
        }
        take(first, ratios);
    });
}

}  // namespace

void freivalds(const Problem& problem, const Operands& operands, const ErrorBound& bound, int threads,
               std::uint64_t seed, const TakeRatios& take) {
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T>) {
            check_integers<T>(problem, operands, threads, seed, take);
        } else {
            check_floating<T>(problem, operands, bound, threads, seed, take);
        }
    });
}

std::uint64_t freivalds_bytes(const Problem& problem) {
    // In double, and not beyond what sums can take, for the extents may be anything. Two numbers a round for
    // complex elements, and a magnitude.
    constexpr double kRowBytes = (2 * kRounds + 1) * sizeof(double);
    const auto rows = static_cast<double>(problem.n) + static_cast<double>(problem.k) +
                      3 * static_cast<double>(std::min(problem.m, kRowsAtOnce));
    return static_cast<std::uint64_t>(std::min(rows * kRowBytes, 0x1p62));
}

}  // namespace gpumat
