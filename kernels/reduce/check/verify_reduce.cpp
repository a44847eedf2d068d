#include "kernels/reduce/check/verify_reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/check/findings.hpp"
#include "kernels/check/packed.hpp"
#include "kernels/reduce/check/kept.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat {
using namespace reduce::check;
namespace {

using reduce::Axis;
using reduce::Reduction;

/// The error of a part that must be finite: within the tolerance. Comparisons are such that NaN fails.
Outcome outcome_of(double computed, double expected, double rest, double tolerance) {
    Outcome outcome;
    outcome.expected = expected + rest;
    outcome.tolerance = tolerance;
    if (std::isnan(expected) || std::isinf(expected)) {
        const bool same = std::isnan(expected) ? std::isnan(computed) : computed == expected;
        outcome.ratio = same ? 0 : kInfinite;
    } else {
        outcome.error = std::fabs((computed - expected) - rest);
        outcome.ratio = outcome.error <= tolerance ? (tolerance > 0 ? outcome.error / tolerance : 0)
                        : tolerance > 0 && std::isfinite(outcome.error) ? outcome.error / tolerance
                                                                        : kInfinite;
    }
    outcome.worst_ratio = outcome.ratio;
    return outcome;
}

constexpr Outcome kRight = {};
constexpr Outcome kWrong = {.ratio = kInfinite, .error = kInfinite, .worst_ratio = kInfinite};

/// One reduction of a matrix of T, which may come in parts, compared with what the level left.
template <class T>
class ReductionCheck final : public ResultCheck {
  public:
    ReductionCheck(const Problem& problem, const VerifyOptions& options)
        : op_(reduce::reduction_of(problem)),
          axis_(reduce::axis_of(problem)),
          type_(result_type(problem)),
          mode_(options.mode),
          tolerance_(options.tolerance),
          any_order_(options.any_order),
          threads_(options.threads) {}

    [[nodiscard]] bool takes_panels() const override { return false; }

    void add_part(const Problem& part, const Operands& inputs) override {
        const Walk walk = {.a = inputs.a, .m = part.m, .n = part.n, .axis = axis_, .threads = threads_};
        kept_.add(walk, op_);
    }

    /// For what another process has, and of what all have.
    [[nodiscard]] const Kept<T>& kept() const { return kept_; }
    void set_kept(Kept<T> kept) { kept_ = std::move(kept); }

    void take(std::int64_t, const Operand& result) override {
        const double depth = kReducedInAChain + kept_.added / 1024 + kept_.parts;
        chain_ = narrow() ? (kReducedInAChain + 1) * kRoundoff : 0;
        if constexpr (std::is_integral_v<T>) chain_ = 0;
        const double roundings = kept_.added * (kIsComplex<T> && op_ == Reduction::norm ? 2 : 1);
        any_chain_ = any_order_ ? roundings * kRoundoff : 0;
        rest_ = depth * kRoundoff * depth * kRoundoff;
        result_ = result;
        if constexpr (std::is_integral_v<T>) {
            if (adds()) return check_whole_sums();
            if (op_ == Reduction::norm) return check_whole_norms();
        } else {
            if (adds()) return check_sums();
            if (op_ == Reduction::norm) return check_norms();
        }
        if (op_ == Reduction::nan_count) return check_counts();
        check_extremes();
    }

    Verification finish() override {
        Verification result = verification_of("full", found_);
        if (mode_ == VerifyMode::freivalds) result.note = "a reduction is verified in full";
        if (has_lost_means_)
            result.note = "means that are infinite or NaN are so because their sums pass the range of f64";
        return result;
    }

  private:
    [[nodiscard]] bool adds() const { return op_ == Reduction::sum || op_ == Reduction::mean; }
    [[nodiscard]] double divisor() const { return op_ == Reduction::mean ? kept_.elements : 1; }

    /// Types that are added up in f64 as they are; f64 keeps what each addition rounds off.
    static constexpr bool narrow() {
        return !std::is_same_v<T, double> && !std::is_same_v<T, std::complex<double>>;
    }

    /// Calls `compare(i, row, col, computed)` for each result.
    template <class Result, class Compare>
    void for_results(const Compare& compare) {
        if (size_of(type_) != sizeof(Result))
            throw std::logic_error("a reduction cannot have results of this type");
        for (std::int64_t row = 0; row < result_.rows; ++row) {
            for (std::int64_t col = 0; col < result_.cols; ++col) {
                compare(static_cast<std::size_t>(row + col), row, col,
                        result_.as<Result>()[row * result_.pitch + col]);
            }
        }
    }

    template <class Result>
    void note(const Outcome& outcome, std::int64_t row, std::int64_t col, Result computed,
              std::complex<double> expected) {
        found_.note(outcome, row, col,
                    [&] { return std::pair(element_text(computed, type_), element_text(expected, type_)); });
    }

    // -- Sums and means of numbers that are not whole --

    void check_sums() {
        using Result = std::conditional_t<kIsComplex<T>, std::complex<double>, double>;
        for_results<Result>([&](std::size_t i, std::int64_t row, std::int64_t col, auto computed) {
            const std::complex<double> c = as_complex(computed);
            const SumState<T>& plain = kept_.sums[i];
            const SumState<T>& down = kept_.sums_down.empty() ? plain : kept_.sums_down[i];
            const SpecialState<T> odd = kept_.special.empty() ? SpecialState<T>{} : kept_.special[i];
            const Outcome re =
                compare_part(c.real(), {plain.re, plain.re_size}, {down.re, down.re_size}, odd.re);
            const Outcome im =
                compare_part(c.imag(), {plain.im, plain.im_size}, {down.im, down.im_size}, odd.im);
            has_lost_means_ |= op_ == Reduction::mean && (passes_range(c.real(), plain.re_size, odd.re) ||
                                                          passes_range(c.imag(), plain.im_size, odd.im));
            note(im.ratio > re.ratio ? im : re, row, col, computed, {re.expected.real(), im.expected.real()});
        });
    }

    struct Sum {
        Twice value;
        double size;  ///< Σ|x|
    };

    /// Whether the result is infinite or NaN, and not by the elements alone.
    static bool passes_range(double computed, double size, double special) {
        if (std::isfinite(computed) || std::isfinite(size) || std::isnan(special)) return false;
        return computed != special;
    }

    /// `small` is the sum of the finite elements scaled by kDown, where `sum.size` is not finite, and
    /// `special` the sum of the others.
    [[nodiscard]] Outcome compare_part(double computed, const Sum& sum, const Sum& small,
                                       double special) const {
        if (std::isfinite(sum.size)) return compare_sum(computed, sum.value, sum.size, 0);
        if (passes_range(computed, sum.size, special) && may_overflow_to(computed, small, special))
            return kRight;
        if (!std::isfinite(special)) return outcome_of(computed, special, 0, 0);
        if (!std::isfinite(computed)) return kWrong;
        return compare_sum(computed * kDown, small.value, small.size, kTiniest);
    }

    /// Whether additions in some order make that of finite elements and of the infinity `special`, if it is
    /// one: they pass the range in that direction, or for NaN in both, of which the infinity may be one.
    static bool may_overflow_to(double computed, const Sum& small, double special) {
        constexpr double kLimit = kLargest * kDown * (1 - 0x1p-20);
        const bool up = (small.size + small.value.high) / 2 >= kLimit || special > kLargest;
        const bool down = (small.size - small.value.high) / 2 >= kLimit || special < -kLargest;
        if (std::isnan(computed)) return up && down;
        return !std::isinf(special) && (computed > 0 ? up : down);
    }

    [[nodiscard]] Outcome compare_sum(double computed, const Twice& sum, double size, double more) const {
        const double count = divisor();
        const double mean = sum.high / count;
        // What the division of the reference leaves, to twice the precision as well.
        const double left = (__builtin_fma(-mean, count, sum.high) + sum.low) / count;
        double tolerance =
            std::max(chain_ + rest_, any_chain_) * size / count + 3 * kRoundoff * std::fabs(mean);
        if (tolerance_) tolerance = *tolerance_ * size / count;
        if (count != 1) tolerance += kTiniest;
        return outcome_of(computed, mean, left, tolerance + more);
    }

    // -- Whole numbers --

    void check_whole_sums() {
        if (op_ == Reduction::mean) {
            for_results<double>([&](std::size_t i, std::int64_t row, std::int64_t col, double computed) {
                const auto size = static_cast<double>(kept_.whole_sums[i].size());
                const Outcome outcome = compare_sum(computed, twice_of(kept_.whole_sums[i].sum), size, 0);
                note(outcome, row, col, computed, outcome.expected);
            });
            return;
        }
        using Result = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
        for_results<Result>([&](std::size_t i, std::int64_t row, std::int64_t col, Result computed) {
            const Int128 sum = kept_.whole_sums[i].sum;
            const auto expected = static_cast<Result>(static_cast<std::uint64_t>(sum));
            if (static_cast<Int128>(expected) != sum) ++found_.wrapped;
            note_whole(computed, expected, row, col);
        });
    }

    template <class Result>
    void note_whole(Result computed, Result expected, std::int64_t row, std::int64_t col) {
        found_.note(computed == expected ? kRight : kWrong, row, col,
                    [&] { return std::pair(element_text(computed, type_), element_text(expected, type_)); });
    }

    static Twice twice_of(Int128 value) {
        const auto high = static_cast<double>(static_cast<std::int64_t>(value >> 64U));
        const auto middle = static_cast<double>(static_cast<std::uint32_t>(value >> 32U));
        const auto low = static_cast<double>(static_cast<std::uint32_t>(value));
        Twice sum;
        const auto whole = static_cast<std::int64_t>(value >> 64U);  // may have more than 53 bits
        const auto rest = whole - static_cast<std::int64_t>(high);
        sum.add(high * 0x1p64);
        sum.add(static_cast<double>(rest) * 0x1p64);
        sum.add(middle * 0x1p32);
        sum.add(low);
        return sum;
    }

    // -- Norms: a relative bound --

    void compare_norm(double computed, const Twice& squares, double scale, std::int64_t row,
                      std::int64_t col) {
        const double root = std::sqrt(squares.high);
        const double rest = root > 0 && std::isfinite(root)
                                ? (__builtin_fma(-root, root, squares.high) + squares.low) / (2 * root)
                                : 0;
        const double ours = (kReducedInAChain / 2 + 8) * kRoundoff + rest_;
        const double bound =
            tolerance_.value_or(std::max(ours, any_chain_ / 2 * (1 + any_chain_) + 8 * kRoundoff));
        // Scaled back, the result may be beyond the range, or among the numbers of few digits.
        const Outcome outcome = outcome_of(computed * scale, root, rest, bound * root + kTiniest * scale);
        const bool beyond = !std::isfinite(computed) && root / scale * (1 + bound) > kLargest;
        note(beyond && std::isinf(computed) ? kRight : outcome, row, col, computed, root / scale);
    }

    void check_norms() {
        for_results<double>([&](std::size_t i, std::int64_t row, std::int64_t col, double computed) {
            const SquaresState<T>& plain = kept_.squares[i];
            if (plain.special != 0) {
                note(outcome_of(computed, plain.special, 0, 0), row, col, computed, plain.special);
            } else if (!(plain.sum.high < kLargeSum)) {
                compare_norm(computed, kept_.squares_down[i].sum, kDown, row, col);
            } else if (plain.is_small()) {
                compare_norm(computed, kept_.squares_up[i].sum, kUp, row, col);
            } else {
                compare_norm(computed, plain.sum, 1, row, col);
            }
        });
    }

    void check_whole_norms() {
        for_results<double>([&](std::size_t i, std::int64_t row, std::int64_t col, double computed) {
            Twice squares;
            const WholeSquaresState<T>& state = kept_.whole_squares[i];
            for (const auto& [sum, unit] :
                 {std::pair(state.aa, 0x1p64), std::pair(state.ab, 0x1p33), std::pair(state.bb, 1.0)}) {
                squares.add(static_cast<double>(static_cast<std::uint64_t>(sum >> 96U)) * 0x1p96 * unit);
                squares.add(static_cast<double>(static_cast<std::uint32_t>(sum >> 64U)) * 0x1p64 * unit);
                squares.add(static_cast<double>(static_cast<std::uint32_t>(sum >> 32U)) * 0x1p32 * unit);
                squares.add(static_cast<double>(static_cast<std::uint32_t>(sum)) * unit);
            }
            compare_norm(computed, squares, 1, row, col);
        });
    }

    // -- Counts and extremes --

    void check_counts() {
        for_results<std::uint64_t>(
            [&](std::size_t i, std::int64_t row, std::int64_t col, std::uint64_t computed) {
                note_whole(computed, static_cast<std::uint64_t>(kept_.orders[i].nans), row, col);
            });
    }

    void check_extremes() {
        if constexpr (std::is_integral_v<T>) {
            const auto compare = [&](std::size_t i, std::int64_t row, std::int64_t col, auto computed) {
                note_whole(computed, whole_extreme<decltype(computed)>(kept_.orders[i]), row, col);
            };
            if (op_ == Reduction::absmax) return for_results<std::make_unsigned_t<T>>(compare);
            for_results<T>(compare);
        } else {
            using Result = std::conditional_t<kIsComplex<T>, double, T>;
            for_results<Result>([&](std::size_t i, std::int64_t row, std::int64_t col, Result computed) {
                const OrderState<T>& state = kept_.orders[i];
                const double expected = state.nans > 0          ? std::numeric_limits<double>::quiet_NaN()
                                        : op_ == Reduction::min ? state.least
                                        : op_ == Reduction::max ? state.largest
                                        : kIsComplex<T>         ? state.largest
                                        : state.count > 0
                                            ? std::max(std::fabs(state.least), std::fabs(state.largest))
                                            : 0.0;
                const double tolerance = kIsComplex<T> ? 8 * kRoundoff * expected + kTiniest : 0;
                note(outcome_of(as_complex(computed).real(), expected, 0, tolerance), row, col, computed,
                     expected);
            });
        }
    }

    template <class Result>
    [[nodiscard]] Result whole_extreme(const OrderState<T>& state) const {
        if (op_ == Reduction::min) return static_cast<Result>(state.least);
        if (op_ == Reduction::max) return static_cast<Result>(state.largest);
        const Int128 low = state.least;
        const Int128 high = state.largest;
        return static_cast<Result>(std::max(low < 0 ? -low : low, high < 0 ? -high : high));
    }

    Reduction op_;
    Axis axis_;
    Type type_;
    VerifyMode mode_;
    std::optional<double> tolerance_;
    bool any_order_;
    int threads_;
    bool has_lost_means_ = false;  ///< which f64 could hold

    Kept<T> kept_;
    Operand result_;
    double chain_ = 0;      ///< error of chains of additions in f64, relative to Σ|x|
    double rest_ = 0;       ///< of what keeps its roundings
    double any_chain_ = 0;  ///< of one chain of all elements, where that is allowed
    Findings found_;
};

/// By all: each keeps what it has of the matrix, and one judges all results.
template <class T>
Verification verify_combined(const Problem& problem, const StoredMatrices& stored,
                             const VerifyOptions& options, std::uint64_t room) {
    ReductionCheck<T> check(problem, options);
    stored.inputs.front()->read_in_blocks(room, [&](const Block& block, const MatrixView& elements) {
        if (block.rows == 0 && problem.m > 0) return;
        Problem part = problem;
        part.m = block.rows;
        check.add_part(part, {.a = operand_of(elements)});
    });
    Kept<T> all;
    stored.gather(check.kept().packed(),
                  [&](std::span<const std::byte> bytes) { all.add(Kept<T>::unpacked(bytes)); });
    Matrix results(stored.result.shape(), stored.result.type());
    stored.result.read({0, 0, results.shape().rows, results.shape().cols},
                       {results.type(), results.shape(), results.shape().cols, results.data()});
    if (all.parts == 0) return {};  // another one judges
    check.set_kept(std::move(all));
    check.take(0, operand_of(results.view()));
    return check.finish();
}

std::unique_ptr<ResultCheck> check_of(Problem problem, const VerifyOptions& options) {
    problem.unfinished = false;  // what is judged is finished
    return visit_type(problem.type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<ResultCheck> {
        return std::make_unique<ReductionCheck<T>>(problem, options);
    });
}

/// The columns of a sparse matrix do not lie apart.
std::int64_t results_at_once(const Problem& problem) {
    const bool together = problem.is_sparse() && reduce::axis_of(problem) == Axis::columns;
    return together ? std::numeric_limits<std::int64_t>::max() : kResultsAtOnce;
}

/// What gives some of the results, from the one at `first` on.
std::pair<Problem, Operands> results_from(std::int64_t first, const Shape& results, Problem problem,
                                          Operands operands) {
    const std::int64_t count = std::min(results_at_once(problem), results.elements() - first);
    if (count == results.elements()) return {std::move(problem), operands};
    const auto skip = [](auto* from, std::int64_t elements, Type type) {
        return from + elements * static_cast<std::int64_t>(size_of(type));
    };
    Operand& a = operands.a;
    MutableOperand& c = operands.c;
    if (results.rows > 1) {
        problem.m = a.rows = c.rows = count;
        if (a.storage == Storage::csr)
            a.pointers += first;
        else
            a.data = skip(a.as<std::byte>(), first * a.pitch, problem.type);
        c.data = skip(c.as<std::byte>(), first * c.pitch, result_type(problem));
    } else if (results.cols > 1) {
        problem.n = a.cols = c.cols = count;
        a.data = skip(a.as<std::byte>(), first, problem.type);
        c.data = skip(c.as<std::byte>(), first, result_type(problem));
    }
    return {std::move(problem), operands};
}

/// From the first of the parts on that are combined.
std::unique_ptr<ResultCheck> begin_parts(const Problem& part, const Operands&, const VerifyOptions& options) {
    return part.unfinished ? check_of(part, options) : nullptr;
}

/// By all, where each has rows and the results of them: what is found goes to one of them.
Verification verify_own_rows(const Problem& problem, const StoredMatrices& stored,
                             const VerifyOptions& options, std::uint64_t room) {
    Verification own;
    std::int64_t first = 0;
    stored.inputs.front()->read_in_blocks(room, [&](const Block& block, const MatrixView& elements) {
        stored.result.read_in_blocks(room, [&](const Block& of, const MatrixView& results) {
            if (of.row != block.row || of.rows != block.rows)
                throw std::logic_error("the rows of a reduction are with other results");
            Problem part = problem;
            part.m = block.rows;
            first = block.row;
            const MutableOperand c{const_cast<std::byte*>(results.data), of.rows, of.cols, results.ld};
            own = verify_reduction(part, {.a = operand_of(elements), .c = c}, options);
        });
    });
    if (own.worst) own.worst->row += first;
    Verification all;
    stored.gather(packed(own),
                  [&](std::span<const std::byte> bytes) { merge_part(all, unpacked(bytes), 0, 0); });
    return all;
}

std::optional<Verification> verify_shared(const Problem& problem, const StoredMatrices& stored,
                                          const VerifyOptions& options, std::uint64_t room) {
    if (!stored.gather || options.mode == VerifyMode::none) return {};
    if (stored.result.shape().elements() == 0) return verification_of("full", {});
    if (reduce::axis_of(problem) == Axis::rows) return verify_own_rows(problem, stored, options, room);
    return visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        return verify_combined<T>(problem, stored, options, room);
    });
}

std::uint64_t bytes_of_states(const Problem& problem, VerifyMode mode) {
    if (mode == VerifyMode::none) return 0;
    Problem judged = problem;
    judged.unfinished = false;
    const Shape results = problem.operation->result(judged);
    constexpr std::uint64_t kStateBytes = 64;  // at least as many as any state has
    // What is combined of parts has the states of all its results until the last part.
    const std::int64_t at_once =
        problem.unfinished ? results.elements() : std::min(results.elements(), results_at_once(problem));
    // Each may be there scaled as well. Columns have some of each piece, and of all parts.
    auto states = static_cast<std::uint64_t>(at_once) * 2;
    if (results.cols > 1 && !problem.is_sparse()) {
        const std::int64_t rows = rows_of_pieces(problem.m, at_once);
        states *= static_cast<std::uint64_t>(ceil_div(problem.m, rows)) + 1;
    }
    return states * kStateBytes;
}

}  // namespace

Verification verify_reduction(const Problem& problem, const Operands& operands,
                              const VerifyOptions& options) {
    if (options.mode == VerifyMode::none) return {};
    const Shape results = problem.operation->result(problem);
    if (results.elements() == 0) return verification_of("full", {});
    Verification all;
    const std::int64_t at_once = std::min(results_at_once(problem), results.elements());
    for (std::int64_t first = 0; first < results.elements(); first += at_once) {
        const auto [some, of] = results_from(first, results, problem, operands);
        const auto check = check_of(some, options);
        check->add_part(some, of);
        check->take(0, of.c);
        merge_part(all, check->finish(), results.rows > 1 ? first : 0, results.cols > 1 ? first : 0);
    }
    return all;
}

constinit const Check reduce::kCheck = {.verify = verify_reduction,
                                        .bytes = bytes_of_states,
                                        .panels = begin_parts,
                                        .in_blocks = verify_shared,
                                        .may_wrap =
                                            [](const Problem& problem) {
                                                return reduction_of(problem) == Reduction::sum &&
                                                       is_integer(problem.type) && size_of(problem.type) == 8;
                                            },
                                        .bytes_by_part = true,
                                        .narrows = true};

}  // namespace gpumat
