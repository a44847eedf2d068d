#include "lib/verify.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "lib/core/error.hpp"
#include "lib/core/parallel.hpp"
#include "lib/elements.hpp"
#include "lib/error_bound.hpp"
#include "lib/freivalds.hpp"
#include "lib/reference.hpp"

namespace gpumat {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- Values as text -------------------------------------------------------------------------------------

std::string text_of(double value, int digits) {
    std::array<char, 40> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, value);
    return buffer.data();
}

/// Significant digits that tell every value of the type apart.
int digits_of(Type type) {
    if (type == Type::f16 || type == Type::bf16) return 5;
    return type == Type::f64 || type == Type::c128 ? 17 : 9;
}

std::string text_of(std::complex<double> value, Type type) {
    const int digits = digits_of(type);
    if (!is_complex(type)) return text_of(value.real(), digits);
    return "(" + text_of(value.real(), digits) + ", " + text_of(value.imag(), digits) + ")";
}

template <class T>
std::string element_text(T value, Type type) {
    if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
    } else {
        return text_of(as_complex(value), type);
    }
}

// ---- What a comparison finds ----------------------------------------------------------------------------

/// The findings in a part of C, merged from smaller parts in any order with the same outcome.
struct Findings {
    std::int64_t mismatches = 0;
    double worst_ratio = -1;
    std::optional<WorstElement> worst;
    std::int64_t wrapped = 0;

    /// Whether an element takes the place of the worst one so far: the first of the largest ratio does.
    [[nodiscard]] bool is_worse(double ratio, std::int64_t row, std::int64_t col) const {
        if (!worst || ratio != worst_ratio) return !worst || ratio > worst_ratio;
        return row != worst->row ? row < worst->row : col < worst->col;
    }

    void merge(const Findings& part) {
        mismatches += part.mismatches;
        wrapped += part.wrapped;
        if (part.worst && is_worse(part.worst_ratio, part.worst->row, part.worst->col)) {
            worst_ratio = part.worst_ratio;
            worst = part.worst;
        }
    }
};

/// The rows of a tile of C that hold a wrong element.
using WrongRows = std::array<bool, kReferenceTileRows>;

/// How an element compares. `ratio` is above 1 exactly where it differs.
struct Outcome {
    double error = 0;
    double bound = 0;
    double ratio = 0;
    std::complex<double> expected;
};

Outcome judged(double error, double bound, std::complex<double> expected) {
    if (error <= bound) return {error, bound, error == 0 ? 0 : error / bound, expected};
    const double ratio = bound > 0 ? error / bound : kInfinity;
    // error / bound can round to 1, and is NaN for a NaN.
    return {error, bound, ratio > 1 ? ratio : std::nextafter(1.0, 2.0), expected};
}

bool is_finite(std::complex<double> value) {
    return std::isfinite(value.real()) && std::isfinite(value.imag());
}

bool same_special(std::complex<double> x, std::complex<double> y, bool complex) {
    if (complex) return !is_finite(x) && !is_finite(y);
    if (std::isnan(x.real()) || std::isnan(y.real())) return std::isnan(x.real()) && std::isnan(y.real());
    return x.real() == y.real();
}

double distance(std::complex<double> computed, const ReferenceElement& reference) {
    const double re = (computed.real() - reference.re.high) - reference.re.low;
    const double im = (computed.imag() - reference.im.high) - reference.im.low;
    return im == 0 ? std::abs(re) : std::hypot(re, im);
}

/// Compares elements of a floating-point or complex C with their reference.
class ElementCheck {
  public:
    ElementCheck(const Problem& problem, const Operands& operands, const ErrorBound& bound)
        : problem_(problem), operands_(operands), bound_(bound), complex_(is_complex(problem.type)) {}

    [[nodiscard]] Outcome operator()(const ReferenceElement& reference, std::complex<double> computed,
                                     std::int64_t row, std::int64_t col) const {
        const std::complex<double> expected = reference.value();
        const double bound = bound_.element(reference.terms, std::abs(expected));
        if (!is_finite(expected) || !std::isfinite(bound)) {
            return beyond_double(expected, computed, row, col);
        }
        if (is_finite(computed)) return judged(distance(computed, reference), bound, expected);
        const bool agrees = bound_.sum_may_overflow(reference, 0) ||
                            reaches_infinity(expected.real(), computed.real(), bound);
        return judged(agrees ? 0 : kInfinity, bound, expected);
    }

  private:
    /// Whether a sum within the bound can round to the infinity that was stored. f16 and bf16 only.
    [[nodiscard]] bool reaches_infinity(double expected, double computed, double bound) const {
        if (!std::isinf(computed)) return false;
        return std::copysign(1.0, computed) * expected + bound >= bound_.overflows_from();
    }

    /// The inputs hold infinities or NaN, or the terms pass the range of double: a second look, on a scale
    /// where finite inputs stay finite.
    [[nodiscard]] Outcome beyond_double(std::complex<double> expected, std::complex<double> computed,
                                        std::int64_t row, std::int64_t col) const {
        if (!is_finite(expected) && same_special(expected, computed, complex_)) return {0, 0, 0, expected};
        const ScaledElement scaled = scaled_element(problem_, operands_, row, col);
        const ReferenceElement& element = scaled.element;
        const std::complex<double> special = element.value();
        if (is_finite(special) && is_finite(computed)) {
            const double bound = bound_.element(element.terms, std::abs(special), scaled.exponent);
            const std::complex<double> down(std::ldexp(computed.real(), -scaled.exponent),
                                            std::ldexp(computed.imag(), -scaled.exponent));
            const Outcome outcome = judged(distance(down, element), bound, special);
            return {
                std::ldexp(outcome.error, scaled.exponent),
                std::ldexp(bound, scaled.exponent),
                outcome.ratio,
                {std::ldexp(special.real(), scaled.exponent), std::ldexp(special.imag(), scaled.exponent)}};
        }
        // An infinity of the inputs must show, unless the finite terms can overflow to the opposite one.
        const bool overflow = bound_.sum_may_overflow(element, scaled.exponent);
        const bool agrees = is_finite(special) ? overflow
                                               : same_special(special, computed, complex_) ||
                                                     (std::isnan(computed.real()) && overflow);
        return judged(agrees ? 0 : kInfinity, 0, special);
    }

    const Problem& problem_;
    const Operands& operands_;
    const ErrorBound& bound_;
    bool complex_;
};

// ---- Rows of C in full ----------------------------------------------------------------------------------

/// `texts` gives computed and expected value; most elements never need them.
template <class Texts>
void note_element(Findings& tile, const Outcome& outcome, std::int64_t row, std::int64_t col,
                  const Texts& texts) {
    if (!tile.is_worse(outcome.ratio, row, col)) return;
    auto [computed, expected] = texts();
    tile.worst_ratio = outcome.ratio;
    tile.worst = {row, col, std::move(computed), std::move(expected), outcome.error, outcome.bound};
}

template <class T>
void check_float_tile(const Problem& p, const Operands& operands, const ErrorBound& bound,
                      std::span<const std::int64_t> rows, std::int64_t col, std::int64_t cols,
                      Findings& found, WrongRows& wrong) {
    const ReferenceScalars scalars(p);
    const ElementCheck check(p, operands, bound);
    const bool add = !p.beta.is_zero(p.type);
    FloatTile tile;
    reference_tile(p, operands, rows, col, cols, tile);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
            const std::int64_t at = rows[i] * p.n + col + j;
            const auto d = add ? as_complex(static_cast<const T*>(operands.d)[at]) : 0.0;
            const auto index = i * static_cast<std::size_t>(kReferenceTileCols) + static_cast<std::size_t>(j);
            const auto reference = finish(scalars, tile, index, d);
            const auto computed = as_complex(static_cast<const T*>(operands.c)[at]);
            const Outcome outcome = check(reference, computed, rows[i], col + j);
            if (!(outcome.ratio <= 1)) {
                ++found.mismatches;
                wrong[i] = true;
            }
            note_element(found, outcome, rows[i], col + j, [&] {
                return std::pair(text_of(computed, p.type), text_of(outcome.expected, p.type));
            });
        }
    }
}

template <class T>
void check_integer_tile(const Problem& p, const Operands& operands, bool may_wrap,
                        std::span<const std::int64_t> rows, std::int64_t col, std::int64_t cols,
                        Findings& found, WrongRows& wrong) {
    const auto alpha = static_cast<std::uint64_t>(p.alpha.integer);
    const auto beta = static_cast<std::uint64_t>(p.beta.integer);
    const bool add = beta != 0;
    const double half_range = std::ldexp(0.5, std::numeric_limits<std::make_unsigned_t<T>>::digits);
    IntegerTile tile;
    reference_tile(p, operands, rows, col, cols, may_wrap, tile);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
            const std::int64_t at = rows[i] * p.n + col + j;
            const T d = add ? static_cast<const T*>(operands.d)[at] : T{};
            const auto index = i * static_cast<std::size_t>(kReferenceTileCols) + static_cast<std::size_t>(j);
            const T expected = static_cast<T>(alpha * tile.sum[index] + beta * static_cast<std::uint64_t>(d));
            const T computed = static_cast<const T*>(operands.c)[at];
            if (may_wrap) {
                // The exact value differs from `expected` by a multiple of the range.
                const double exact = static_cast<double>(p.alpha.integer) * tile.estimate[index] +
                                     static_cast<double>(p.beta.integer) * static_cast<double>(d);
                if (std::abs(exact - static_cast<double>(expected)) > half_range) ++found.wrapped;
            }
            Outcome outcome;
            if (computed != expected) {
                ++found.mismatches;
                wrong[i] = true;
                outcome.error = std::abs(static_cast<double>(computed) - static_cast<double>(expected));
                outcome.ratio = kInfinity;
            }
            note_element(found, outcome, rows[i], col + j,
                         [&] { return std::pair(std::to_string(computed), std::to_string(expected)); });
        }
    }
}

double largest_modulus(Type type, const void* data, std::int64_t count, int threads) {
    double largest = 0;
    std::mutex mutex;
    visit_type(type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T>) {
            parallel_for(count, std::int64_t{1} << 16, threads, [&](std::int64_t begin, std::int64_t end) {
                const auto* values = static_cast<const T*>(data);
                const auto [low, high] = std::minmax_element(values + begin, values + end);
                const double modulus =
                    std::max(std::abs(static_cast<double>(*low)), std::abs(static_cast<double>(*high)));
                const std::lock_guard lock(mutex);
                largest = std::max(largest, modulus);
            });
        }
    });
    return largest;
}

/// Whether an integer result could pass the range of its type, from the largest elements.
bool may_wrap(const Problem& p, const Operands& operands, int threads) {
    const double a = largest_modulus(p.type, operands.a, p.m * p.k, threads);
    const double b = largest_modulus(p.type, operands.b, p.k * p.n, threads);
    const double d = p.beta.integer == 0 ? 0 : largest_modulus(p.type, operands.d, p.m * p.n, threads);
    const double most = std::abs(static_cast<double>(p.alpha.integer)) * a * b * static_cast<double>(p.k) +
                        std::abs(static_cast<double>(p.beta.integer)) * d;
    const bool is_signed = p.type <= Type::i64;
    const bool negative = p.alpha.integer < 0 || p.beta.integer < 0;  // wraps an unsigned type at once
    const auto bits = static_cast<int>(size_of(p.type) * 8) - (is_signed ? 1 : 0);
    return (!is_signed && negative) || !(most < std::ldexp(1 - 0x1p-40, bits));
}

/// What the checks of all rows have in common.
struct Check {
    const Problem& problem;
    const Operands& operands;
    const ErrorBound& bound;
    bool may_wrap;
    int threads;
};

Check make_check(const Problem& p, const Operands& operands, const ErrorBound& bound, int threads) {
    return {p, operands, bound, is_integer(p.type) && may_wrap(p, operands, threads), threads};
}

/// Every element of `rows`, and in `wrong` which of them hold a wrong one (not 0).
Findings check_rows(const Check& check, std::span<const std::int64_t> rows, std::span<char> wrong) {
    const Problem& p = check.problem;
    Findings all;
    std::mutex mutex;
    const auto row_count = static_cast<std::int64_t>(rows.size());
    const std::int64_t tiles_down = (row_count + kReferenceTileRows - 1) / kReferenceTileRows;
    const std::int64_t tiles_across = (p.n + kReferenceTileCols - 1) / kReferenceTileCols;
    parallel_for(tiles_down * tiles_across, 1, check.threads, [&](std::int64_t begin, std::int64_t) {
        const auto first = static_cast<std::size_t>(begin / tiles_across * kReferenceTileRows);
        const auto tile_rows =
            rows.subspan(first, std::min<std::size_t>(kReferenceTileRows, rows.size() - first));
        const std::int64_t col = begin % tiles_across * kReferenceTileCols;
        const std::int64_t cols = std::min(kReferenceTileCols, p.n - col);
        Findings tile;
        WrongRows wrong_here{};
        visit_type(p.type, [&]<class T>(TypeTag<T>) {
            if constexpr (std::is_integral_v<T>) {
                check_integer_tile<T>(p, check.operands, check.may_wrap, tile_rows, col, cols, tile,
                                      wrong_here);
            } else {
                check_float_tile<T>(p, check.operands, check.bound, tile_rows, col, cols, tile, wrong_here);
            }
        });
        const std::lock_guard lock(mutex);
        all.merge(tile);
        for (std::size_t i = 0; i < tile_rows.size(); ++i) {
            if (wrong_here[i]) wrong[first + i] = 1;
        }
    });
    return all;
}

// ---- The two modes --------------------------------------------------------------------------------------

Verification verification_of(const char* mode, const Findings& found) {
    Verification result;
    result.mode = mode;
    result.mismatches = found.mismatches;
    result.verdict = result.mismatches == 0 ? "passed" : "failed";
    result.worst_ratio = std::max(0.0, found.worst_ratio);
    result.worst = found.worst;
    result.wrapped = found.wrapped;
    return result;
}

Verification check_in_full(const Problem& p, const Operands& operands, const ErrorBound& bound, int threads) {
    constexpr std::int64_t kRowsAtOnce = 1 << 18;  // a list of 2 MB
    const Check check = make_check(p, operands, bound, threads);
    Findings found;
    for (std::int64_t first = 0; first < p.m; first += kRowsAtOnce) {
        std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(kRowsAtOnce, p.m - first)));
        std::iota(rows.begin(), rows.end(), first);
        std::vector<char> wrong(rows.size());
        found.merge(check_rows(check, rows, wrong));
    }
    return verification_of("full", found);
}

/// Freivalds' check, taking its ratios some rows at a time: rows at random, those that it cannot judge and
/// its worst one are also checked in full.
class RandomCheck {
  public:
    RandomCheck(const Check& check, std::uint64_t seed) : check_(check), random_(seed) {}

    void take(std::int64_t first, std::span<const double> ratios) {
        std::vector<std::int64_t> rows = sample(first, static_cast<std::int64_t>(ratios.size()));
        std::vector<char> wrong(ratios.size(), 0);
        std::int64_t worst_row = -1;  // where it is wrong, and worse than all before
        for (std::size_t i = 0; i < ratios.size(); ++i) {
            const std::int64_t row = first + static_cast<std::int64_t>(i);
            if (std::isnan(ratios[i])) {
                rows.push_back(row);
                ++unjudged_;
                continue;
            }
            wrong[i] = ratios[i] <= 1 ? 0 : 1;
            if (ratios[i] <= worst_ratio_) continue;
            worst_ratio_ = ratios[i];
            if (wrong[i] != 0) worst_row = row;
        }
        if (worst_row >= 0) rows.push_back(worst_row);
        check_in_full(std::move(rows), first, wrong);
        wrong_rows_ += std::count(wrong.begin(), wrong.end(), 1);
    }

    /// After the last rows.
    [[nodiscard]] Verification result() const {
        Verification result = verification_of("freivalds", found_);
        result.mismatches = wrong_rows_;
        result.verdict = wrong_rows_ == 0 ? "passed" : "failed";
        result.worst_ratio = std::max(result.worst_ratio, worst_ratio_);
        if (unjudged_ > 0) {
            result.note = std::to_string(unjudged_) + " rows overflow or hold values that are not finite; " +
                          "they were checked in full";
        }
        return result;
    }

  private:
    /// Of these rows the first, the last, and others at random: in all, for as many operations as a full
    /// check may cost.
    std::vector<std::int64_t> sample(std::int64_t first, std::int64_t count) {
        const double flops = std::max(1.0, check_.problem.flops());
        const double share = std::min(1.0, kFullCheckFlops / 8 / flops);
        const auto most = static_cast<std::size_t>(share * static_cast<double>(count));
        std::vector<std::int64_t> rows = {first, first + count - 1};
        while (rows.size() < most)
            rows.push_back(first + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)));
        return rows;
    }

    void check_in_full(std::vector<std::int64_t> rows, std::int64_t first, std::span<char> wrong) {
        std::sort(rows.begin(), rows.end());
        rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
        std::vector<char> found_wrong(rows.size());
        found_.merge(check_rows(check_, rows, found_wrong));
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (found_wrong[i] != 0) wrong[static_cast<std::size_t>(rows[i] - first)] = 1;
        }
    }

    const Check& check_;
    std::mt19937_64 random_;
    Findings found_;
    std::int64_t wrong_rows_ = 0;
    std::int64_t unjudged_ = 0;
    double worst_ratio_ = 0;
};

Verification check_at_random(const Problem& p, const Operands& operands, const ErrorBound& bound,
                             const VerifyOptions& options) {
    const Check check = make_check(p, operands, bound, options.threads);
    RandomCheck random(check, options.seed);
    freivalds(p, operands, bound, options.threads, options.seed,
              [&](std::int64_t first, std::span<const double> ratios) { random.take(first, ratios); });
    return random.result();
}

bool all_finite(Type type, const void* data, std::int64_t count, int threads) {
    std::atomic<bool> finite{true};
    visit_type(type, [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_integral_v<T>) {
            parallel_for(count, std::int64_t{1} << 16, threads, [&](std::int64_t begin, std::int64_t end) {
                const auto* values = static_cast<const T*>(data);
                for (std::int64_t i = begin; i < end && finite; ++i) {
                    if (!is_finite(as_complex(values[i]))) finite = false;
                }
            });
        }
    });
    return finite;
}

bool inputs_are_finite(const Problem& p, const Operands& operands, int threads) {
    return all_finite(p.type, operands.a, p.m * p.k, threads) &&
           all_finite(p.type, operands.b, p.k * p.n, threads) &&
           (p.beta.is_zero(p.type) || all_finite(p.type, operands.d, p.m * p.n, threads));
}

// ---- Transposes -----------------------------------------------------------------------------------------

constexpr std::int64_t kBlock = 64;  // two blocks of 16-byte elements are 128 KiB

template <class T>
const std::byte* bytes_of(const T& element) {
    return reinterpret_cast<const std::byte*>(&element);
}

/// The block of `in` that becomes `block` of its transpose.
Block source_of(const Block& block) {
    return {block.col, block.row, block.cols, block.rows};
}

/// Asks for the lines of a block, whose rows lie too far apart for the hardware to foresee them.
template <class T>
void prefetch(const MatrixView& matrix, const Block& block) {
    constexpr std::size_t kLineBytes = 64;
    const std::size_t bytes = static_cast<std::size_t>(block.cols) * sizeof(T);
    for (std::int64_t i = block.row; i < block.row + block.rows; ++i) {
        const std::byte* row = bytes_of(matrix.row<T>(i)[block.col]);
        for (std::size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at);
    }
}

/// The row of `block` with number `i` in `out` differs from `expected`.
template <class T>
void note_row(const MatrixView& out, const T* expected, std::int64_t i, const Block& block, Findings& found) {
    const T* row = out.row<T>(i);
    for (std::int64_t j = block.col; j < block.col + block.cols; ++j) {
        const T& right = expected[j - block.col];
        if (std::memcmp(bytes_of(row[j]), bytes_of(right), sizeof(T)) == 0) continue;
        ++found.mismatches;
        note_element(found, {kInfinity, 0, kInfinity, {}}, i, j, [&] {
            return std::pair(element_text(row[j], out.type), element_text(right, out.type));
        });
    }
}

/// Turns the block's source round, in memory that stays in the first cache, and compares whole rows.
template <class T>
void compare_block(const MatrixView& in, const MatrixView& out, const Block& block, Findings& found) {
    constexpr std::int64_t kStep =
        kBlock + 64 / sizeof(T);  // a line more, so that columns share no cache set
    alignas(64) std::array<std::byte, kBlock * kStep * sizeof(T)> memory;
    T* const expected = reinterpret_cast<T*>(memory.data());
    for (std::int64_t j = 0; j < block.cols; ++j) {
        const T* from = in.row<T>(block.col + j) + block.row;
        for (std::int64_t i = 0; i < block.rows; ++i)
            std::memcpy(expected + i * kStep + j, from + i, sizeof(T));
    }
    for (std::int64_t i = 0; i < block.rows; ++i) {
        const T* row = out.row<T>(block.row + i) + block.col;
        // As bytes: a NaN equals itself, and the zeros differ.
        if (std::memcmp(row, expected + i * kStep, static_cast<std::size_t>(block.cols) * sizeof(T)) != 0)
            note_row(out, expected + i * kStep, block.row + i, block, found);
    }
}

/// Rows [begin, end) of a transpose, end - begin <= kBlock.
template <class T>
void compare_rows(const MatrixView& in, const MatrixView& out, std::int64_t begin, std::int64_t end,
                  Findings& found) {
    const auto block_at = [&](std::int64_t col) {
        return Block{begin, col, end - begin, std::min(kBlock, out.shape.cols - col)};
    };
    for (std::int64_t col = 0; col < out.shape.cols; col += kBlock) {
        if (col + kBlock < out.shape.cols) {
            prefetch<T>(in, source_of(block_at(col + kBlock)));
            prefetch<T>(out, block_at(col + kBlock));
        }
        compare_block<T>(in, out, block_at(col), found);
    }
}

void require_transposed(const MatrixView& in, const MatrixView& out) {
    if (in.type == out.type && in.shape.transposed() == out.shape) return;
    throw Error(ErrorCode::not_comparable, "cannot compare a transpose: the input is " + to_string(in.shape) +
                                               " " + std::string(name_of(in.type)) +
                                               ", so the output must be " + to_string(in.shape.transposed()) +
                                               " " + std::string(name_of(in.type)) + ", and is " +
                                               to_string(out.shape) + " " + std::string(name_of(out.type)));
}

}  // namespace

std::optional<VerifyMode> verify_mode_from_name(std::string_view name) {
    if (name == "auto") return VerifyMode::automatic;
    if (name == "full") return VerifyMode::full;
    if (name == "freivalds") return VerifyMode::freivalds;
    if (name == "none") return VerifyMode::none;
    return std::nullopt;
}

Verification verify_transpose(const MatrixView& in, const MatrixView& out, const VerifyOptions& options) {
    require_transposed(in, out);
    if (options.mode == VerifyMode::none) return {};
    if (out.shape.rows == 0 || out.shape.cols == 0) return verification_of("full", {});
    Findings all;
    std::mutex mutex;
    parallel_for(out.shape.rows, kBlock, options.threads, [&](std::int64_t begin, std::int64_t end) {
        Findings rows;
        visit_type(in.type, [&]<class T>(TypeTag<T>) { compare_rows<T>(in, out, begin, end, rows); });
        const std::lock_guard lock(mutex);
        all.merge(rows);
    });
    return verification_of("full", all);
}

Verification verify_multiply(const Problem& asked, const Operands& operands, const VerifyOptions& options) {
    if (options.mode == VerifyMode::none) return {};
    const Problem problem = as_read(asked);
    // Without elements there may be any number of rows, and each mode finds the same.
    if (problem.m == 0 || problem.n == 0)
        return verification_of(options.mode == VerifyMode::freivalds ? "freivalds" : "full", {});
    const ErrorBound bound(problem, options.tolerance);
    const bool cheap = problem.flops() <= kFullCheckFlops;
    if (options.mode == VerifyMode::full || (options.mode == VerifyMode::automatic && cheap)) {
        return check_in_full(problem, operands, bound, options.threads);
    }
    if (!inputs_are_finite(problem, operands, options.threads)) {
        Verification result = check_in_full(problem, operands, bound, options.threads);
        result.note =
            "the inputs hold infinities or NaN, which a randomized check cannot judge; "
            "every element was checked instead";
        return result;
    }
    return check_at_random(problem, operands, bound, options);
}

std::uint64_t verification_bytes(const Problem& asked, VerifyMode mode) {
    const Problem problem = as_read(asked);
    if (problem.m == 0 || problem.n == 0) return 0;
    const bool at_random = problem.operation == Operation::multiply &&
                           (mode == VerifyMode::freivalds ||
                            (mode == VerifyMode::automatic && problem.flops() > kFullCheckFlops));
    return at_random ? freivalds_bytes(problem) : 0;
}

}  // namespace gpumat
