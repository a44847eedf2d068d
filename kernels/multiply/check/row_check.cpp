#include "kernels/multiply/check/row_check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/multiply/check/element_check.hpp"
#include "kernels/multiply/check/replay.hpp"

namespace gpumat {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A tile of C: some rows, and a range of their columns.
struct ResultTile {
    std::span<const ResultRow> rows;
    std::int64_t col;
    std::int64_t cols;

    [[nodiscard]] std::vector<std::int64_t> numbers() const {
        std::vector<std::int64_t> list;
        for (const ResultRow& row : rows) list.push_back(row.row);
        return list;
    }
};

constexpr std::size_t index_in_tile(std::size_t row, std::int64_t col) {
    return row * static_cast<std::size_t>(kTileCols) + static_cast<std::size_t>(col);
}

/// Floating-point and complex tiles.
template <class T>
class FloatTileCheck {
  public:
    FloatTileCheck(const Problem& problem, const Operands& operands, const ErrorBound& bound,
                   const ResultTile& tile)
        : problem_(problem),
          operands_(operands),
          bound_(bound),
          tile_(tile),
          numbers_(tile.numbers()),
          check_(problem, operands, bound),
          scalars_(problem) {
        reference_tile(problem, operands, {numbers_, tile.col, tile.cols}, sums_);
    }

    /// Compares every element, and once more with replayed sums where rows hold errors beyond the expected.
    void compare(Findings& found, std::span<char> wrong) {
        std::vector<std::size_t> suspects;
        for (std::size_t i = 0; i < tile_.rows.size(); ++i) {
            Findings row;
            for (std::int64_t j = 0; j < tile_.cols; ++j) note(i, j, 0, 0, row);
            if (row.mismatches > 0 && row.worst_ratio <= 1) {
                suspects.push_back(i);
            } else {
                keep(row, i, found, wrong);
            }
        }
        if (suspects.empty()) return;
        const ReplayedErrors replayed = replay(suspects);
        for (std::size_t s = 0; s < suspects.size(); ++s) {
            Findings row;
            for (std::int64_t j = 0; j < tile_.cols; ++j) {
                const std::size_t index = index_in_tile(s, j);
                const double adding = errors_of_adding(suspects[s], j);
                note(suspects[s], j, scaled_re(replayed, index) + adding, scaled_im(replayed, index) + adding,
                     row);
            }
            keep(row, suspects[s], found, wrong);
        }
    }

    /// The largest errors of the orders of addition, squared and summed over the tile, and those of C.
    struct Squares {
        double replayed = 0;
        double found = 0;
    };
    Squares compare_with_replay() {
        std::vector<std::size_t> all(tile_.rows.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
        const ReplayedErrors replayed = replay(all);
        Squares squares;
        for (std::size_t i = 0; i < all.size(); ++i) {
            for (std::int64_t j = 0; j < tile_.cols; ++j) {
                const std::size_t index = index_in_tile(i, j);
                const ReferenceElement reference = element(i, j);
                const auto value = computed(i, j);
                const double adding = errors_of_adding(i, j);
                add_squares(reference.re, value.real(), scaled_re(replayed, index) + adding, squares);
                if constexpr (kIsComplex<T>)
                    add_squares(reference.im, value.imag(), scaled_im(replayed, index) + adding, squares);
            }
        }
        return squares;
    }

  private:
    [[nodiscard]] std::complex<double> computed(std::size_t i, std::int64_t j) const {
        return as_complex(reinterpret_cast<const T*>(tile_.rows[i].elements)[tile_.col + j]);
    }

    [[nodiscard]] ReferenceElement element(std::size_t i, std::int64_t j) const {
        const bool add = !problem_.beta.is_zero(problem_.type);
        const auto d = add ? as_complex(element_of_d<T>(operands_, numbers_[i], tile_.col + j)) : 0.0;
        return finish(scalars_, sums_, index_in_tile(i, j), d);
    }

    /// Errors of the parts of op(A)·op(B) as α carries them into the parts of C.
    [[nodiscard]] double scaled_re(const ReplayedErrors& errors, std::size_t index) const {
        const double re = std::abs(scalars_.alpha.real()) * errors.re[index];
        return errors.im.empty() ? re : re + std::abs(scalars_.alpha.imag()) * errors.im[index];
    }
    [[nodiscard]] double scaled_im(const ReplayedErrors& errors, std::size_t index) const {
        if (errors.im.empty()) return 0;
        return std::abs(scalars_.alpha.real()) * errors.im[index] +
               std::abs(scalars_.alpha.imag()) * errors.re[index];
    }

    /// What is rounded off where α·op(A)·op(B) is added to β·D some steps of k at a time: where β·D is by far
    /// the larger, each addition rounds it anew, and perhaps always in the same direction.
    [[nodiscard]] double errors_of_adding(std::size_t i, std::int64_t j) const {
        if (problem_.beta.is_zero(problem_.type)) return 0;
        const Rounding& rounding = bound_.rounding();
        const std::int64_t additions = ceil_div(problem_.k, rounding.summed_at_once);
        const auto d = as_complex(element_of_d<T>(operands_, numbers_[i], tile_.col + j));
        return static_cast<double>(additions) * rounding.sum_roundoff * std::abs(scalars_.beta * d);
    }

    /// The replayed errors are those of the parts of C.
    void note(std::size_t i, std::int64_t j, double replayed_re, double replayed_im, Findings& row) const {
        const ReferenceElement reference = element(i, j);
        const auto value = computed(i, j);
        const Outcome outcome =
            check_(reference, value, numbers_[i], tile_.col + j, replayed_re, replayed_im);
        row.note(outcome, numbers_[i], tile_.col + j, [&] {
            return std::pair(element_text(value, problem_.type),
                             element_text(outcome.expected, problem_.type));
        });
        if (!is_finite(value) || !is_finite(reference.value())) return;
        add_errors(reference.re, value.real(), row);
        if constexpr (kIsComplex<T>) add_errors(reference.im, value.imag(), row);
    }

    void add_errors(const ReferencePart& part, double value, Findings& row) const {
        const double error = distance(value, part.value);
        const double noise = bound_.noise(part);
        if (!std::isfinite(noise) || noise == 0) return;
        row.error_squares += error * error;
        row.value_squares += part.value.high * part.value.high;
        row.noise_squares += (error / noise) * (error / noise);
        ++row.compared;
        row.distinct.add(part.value.high);
    }

    /// The errors count on the scale of what is expected, so that large elements do not hide small ones.
    void add_squares(const ReferencePart& part, double value, double replayed, Squares& squares) const {
        const double noise = bound_.noise(part);
        const double error = distance(value, part.value);
        if (!std::isfinite(noise) || noise == 0 || !std::isfinite(error)) return;
        const double stored = bound_.rounding().output_roundoff * part.scaled;
        squares.found += (error / noise) * (error / noise);
        squares.replayed += (replayed / noise) * (replayed / noise) + (stored / noise) * (stored / noise);
    }

    /// The replayed errors of some rows of the tile, row by row.
    [[nodiscard]] ReplayedErrors replay(std::span<const std::size_t> rows) const {
        std::vector<std::int64_t> numbers;
        FloatTile sums;
        for (const std::size_t i : rows) {
            numbers.push_back(numbers_[i]);
            for (const auto& [from, to] : {std::pair(&sums_.re, &sums.re), std::pair(&sums_.im, &sums.im)}) {
                if (from->sum.empty()) continue;
                const auto begin = static_cast<std::ptrdiff_t>(index_in_tile(i, 0));
                to->sum.insert(to->sum.end(), from->sum.begin() + begin,
                               from->sum.begin() + begin + kTileCols);
                to->correction.insert(to->correction.end(), from->correction.begin() + begin,
                                      from->correction.begin() + begin + kTileCols);
            }
        }
        return replay_tile(problem_, operands_, {numbers, tile_.col, tile_.cols}, sums);
    }

    static void keep(const Findings& row, std::size_t i, Findings& found, std::span<char> wrong) {
        found.merge(row);
        if (row.mismatches > 0) wrong[i] = 1;
    }

    const Problem& problem_;
    const Operands& operands_;
    const ErrorBound& bound_;
    const ResultTile& tile_;
    std::vector<std::int64_t> numbers_;
    ElementCheck check_;
    ReferenceScalars scalars_;
    FloatTile sums_;
};

/// `T` is the type of A and B, `C` that of the result.
template <class T, class C>
void check_integer_tile(const Problem& p, const Operands& operands, bool may_wrap, const ResultTile& tile,
                        Findings& found, std::span<char> wrong) {
    const auto alpha = static_cast<std::uint64_t>(p.alpha.integer);
    const auto beta = static_cast<std::uint64_t>(p.beta.integer);
    const double half_range = std::ldexp(0.5, std::numeric_limits<std::make_unsigned_t<C>>::digits);
    const auto numbers = tile.numbers();
    IntegerTile sums;
    reference_tile(p, operands, {numbers, tile.col, tile.cols}, may_wrap, sums);
    for (std::size_t i = 0; i < tile.rows.size(); ++i) {
        const auto before = found.mismatches;
        for (std::int64_t j = 0; j < tile.cols; ++j) {
            const std::int64_t col = tile.col + j;
            const T d = beta != 0 ? element_of_d<T>(operands, numbers[i], col) : T{};
            const std::size_t index = index_in_tile(i, j);
            const C expected = static_cast<C>(alpha * sums.sum[index] + beta * static_cast<std::uint64_t>(d));
            const C computed = reinterpret_cast<const C*>(tile.rows[i].elements)[col];
            if (may_wrap) {
                // The exact value differs from `expected` by a multiple of the range.
                const double exact = static_cast<double>(p.alpha.integer) * sums.estimate[index] +
                                     static_cast<double>(p.beta.integer) * static_cast<double>(d);
                if (std::abs(exact - static_cast<double>(expected)) > half_range) ++found.wrapped;
            }
            Outcome outcome = right_or_wrong(computed == expected, {});
            if (computed != expected)
                outcome.error = std::abs(static_cast<double>(computed) - static_cast<double>(expected));
            found.note(outcome, numbers[i], col,
                       [&] { return std::pair(std::to_string(computed), std::to_string(expected)); });
        }
        if (found.mismatches > before) wrong[i] = 1;
    }
}

double largest_modulus(Type type, const Operand& matrix, int threads) {
    double largest = 0;
    std::mutex mutex;
    visit_type(type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T>) {
            const std::int64_t grain = (std::int64_t{1} << 16) / std::max<std::int64_t>(1, matrix.cols) + 1;
            parallel_for(matrix.cols > 0 ? matrix.rows : 0, grain, threads,
                         [&](std::int64_t begin, std::int64_t end) {
                             double most = 0;
                             for (std::int64_t i = begin; i < end; ++i) {
                                 const T* row = matrix.as<T>() + i * matrix.pitch;
                                 const auto [low, high] = std::minmax_element(row, row + matrix.cols);
                                 most = std::max({most, std::abs(static_cast<double>(*low)),
                                                  std::abs(static_cast<double>(*high))});
                             }
                             const std::lock_guard lock(mutex);
                             largest = std::max(largest, most);
                         });
        }
    });
    return largest;
}

/// Whether an integer result could pass the range of its type, from the largest elements.
bool may_wrap(const Problem& p, const Operands& operands, int threads) {
    const double a = p.k == 0 ? 0 : largest_modulus(p.type, operands.a, threads);
    const double b = p.k == 0 ? 0 : largest_modulus(p.type, operands.b, threads);
    const double d = p.beta.integer == 0 ? 0 : largest_modulus(p.type, operands.d, threads);
    const double most = std::abs(static_cast<double>(p.alpha.integer)) * a * b * static_cast<double>(p.k) +
                        std::abs(static_cast<double>(p.beta.integer)) * d;
    const Type type = result_type(p);
    const bool is_signed = type <= Type::i64;
    const bool negative = p.alpha.integer < 0 || p.beta.integer < 0;  // wraps an unsigned type at once
    const auto bits = static_cast<int>(size_of(type) * 8) - (is_signed ? 1 : 0);
    return (!is_signed && negative) || !(most < std::ldexp(1 - 0x1p-40, bits));
}

/// Up to which multiple of the expected error the root mean square of so many independent errors may come. A
/// rounding errs by at most u/√3 in this mean, the partial sums of a level may be larger than those expected,
/// and the mean of few errors is not sharp: the bound of Laurent and Massart (2000) on χ², for a probability
/// of e^−64. A single error may be 9 times the expected one.
double coarseness_limit(std::int64_t count) {
    const double spread = 64 / static_cast<double>(count);
    return 0.75 * std::sqrt(1 + 2 * std::sqrt(spread) + 2 * spread);
}

/// What errors may be of those that the orders of addition make with the same elements.
constexpr double kCoarserThanReplayed = 2;

}  // namespace

RowCheck::RowCheck(const Problem& problem, const Operands& operands, const VerifyOptions& options)
    : problem_(problem),
      operands_(operands),
      bound_(problem, options.rounding.value_or(Rounding::of(problem)), options.tolerance),
      may_wrap_(is_integer(problem.type) && may_wrap(problem, operands, options.threads)),
      judges_precision_(!is_integer(problem.type) && !options.tolerance),
      threads_(options.threads) {}

Findings RowCheck::check(std::span<const ResultRow> rows, std::span<char> wrong) const {
    Findings all;
    std::mutex mutex;
    const auto count = static_cast<std::int64_t>(rows.size());
    const std::int64_t tiles_down = ceil_div(count, kTileRows);
    const std::int64_t tiles_across = ceil_div(problem_.n, kTileCols);
    parallel_for(tiles_down * tiles_across, 1, threads_, [&](std::int64_t begin, std::int64_t) {
        const auto first = static_cast<std::size_t>(begin / tiles_across * kTileRows);
        const std::int64_t col = begin % tiles_across * kTileCols;
        const ResultTile tile{rows.subspan(first, std::min<std::size_t>(kTileRows, rows.size() - first)), col,
                              std::min(kTileCols, problem_.n - col)};
        Findings found;
        std::array<char, kTileRows> wrong_here{};
        visit_type(problem_.type, [&]<class T>(TypeTag<T>) {
            if constexpr (std::is_integral_v<T>) {
                visit_result<T>(problem_, [&]<class C>(TypeTag<C>) {
                    check_integer_tile<T, C>(problem_, operands_, may_wrap_, tile, found, wrong_here);
                });
            } else {
                FloatTileCheck<T>(problem_, operands_, bound_, tile).compare(found, wrong_here);
            }
        });
        const std::lock_guard lock(mutex);
        all.merge(found);
        for (std::size_t i = 0; i < tile.rows.size(); ++i) {
            if (wrong_here[i] != 0) wrong[first + i] = 1;
        }
    });
    return all;
}

bool RowCheck::too_coarse(std::span<const ResultRow> rows, const Findings& found, std::string& note) const {
    if (!judges_precision_ || found.compared == 0) return false;
    const double mean = std::sqrt(found.noise_squares / static_cast<double>(found.compared));
    if (mean <= coarseness_limit(std::min(found.compared, found.distinct.count()))) return false;
    // More than independent roundings make. The sums of a part, in several orders, show what others make.
    constexpr std::int64_t kTiles = 4;
    double replayed = 0;
    double errors = 0;
    std::mutex mutex;
    const std::int64_t tiles_across = ceil_div(problem_.n, kTileCols);
    const std::int64_t tiles = std::min(kTiles, tiles_across);
    std::vector<ResultRow> few;
    const std::size_t count = std::min<std::size_t>(rows.size(), kTileRows);
    for (std::size_t i = 0; i < count; ++i) few.push_back(rows[i * rows.size() / count]);
    parallel_for(tiles, 1, threads_, [&](std::int64_t begin, std::int64_t) {
        const std::int64_t col = begin * tiles_across / tiles * kTileCols;
        const ResultTile tile{few, col, std::min(kTileCols, problem_.n - col)};
        visit_type(problem_.type, [&]<class T>(TypeTag<T>) {
            if constexpr (!std::is_integral_v<T>) {
                const auto squares =
                    FloatTileCheck<T>(problem_, operands_, bound_, tile).compare_with_replay();
                const std::lock_guard lock(mutex);
                replayed += squares.replayed;
                errors += squares.found;
            }
        });
    });
    const double ratio = replayed > 0 ? std::sqrt(errors / replayed) : errors > 0 ? kInfinity : 0;
    if (ratio <= kCoarserThanReplayed) return false;
    std::array<char, 160> text{};
    std::snprintf(
        text.data(), text.size(),
        "the root mean square error is %.3g times that of sums in the arithmetic of %s: a lower precision",
        ratio, std::string(name_of(problem_.type)).c_str());
    note = text.data();
    return true;
}

std::vector<ResultRow> result_rows(Type type, const Operand& c, std::int64_t first) {
    std::vector<ResultRow> rows;
    rows.reserve(static_cast<std::size_t>(c.rows));
    for (std::int64_t i = 0; i < c.rows; ++i) rows.push_back({first + i, row_of(type, c, i)});
    return rows;
}

}  // namespace gpumat
