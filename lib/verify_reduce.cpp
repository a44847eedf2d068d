#include "lib/verify_reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/operation.hpp"
#include "lib/core/parallel.hpp"
#include "lib/findings.hpp"

namespace gpumat {
namespace {

constexpr double kRoundoff = 0x1p-53;
constexpr double kTiniest = std::numeric_limits<double>::denorm_min();
constexpr double kInfinite = std::numeric_limits<double>::infinity();
// What is scaled by these is far from both ends of the range of double, and so are its squares.
constexpr double kUp = 0x1p600;
constexpr double kDown = 0x1p-600;

__extension__ using Int128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;

template <class T>
double real_of(T value) {
    return static_cast<double>(value);
}
template <class R>
double real_of(std::complex<R> value) {
    return static_cast<double>(value.real());
}
template <class T>
double imag_of(T) {
    return 0;
}
template <class R>
double imag_of(std::complex<R> value) {
    return static_cast<double>(value.imag());
}

/// A number in twice the precision of double: high + low, |low| ≤ ulp(high)/2 (after Dekker and Knuth).
struct Twice {
    double high = 0;
    double low = 0;

    void add(double x) {
        const double sum = high + x;
        const double part = sum - high;
        const double rest = low + ((high - (sum - part)) + (x - part));
        high = sum + rest;
        low = rest - (high - sum);
    }
    void add(const Twice& other) {
        add(other.high);
        add(other.low);
    }
};

// ---- What is kept of each result's elements; `scale` is a power of two ----

/// Σx of a part, and Σ|x|, which is not finite where an element is not.
template <class T>
struct SumState {
    Twice re;
    Twice im;
    double re_size = 0;
    double im_size = 0;

    void add(T value, double scale) {
        re.add(real_of(value) * scale);
        re_size += std::fabs(real_of(value)) * scale;
        if constexpr (kIsComplex<T>) {
            im.add(imag_of(value) * scale);
            im_size += std::fabs(imag_of(value)) * scale;
        }
    }
    void merge(const SumState& other) {
        re.add(other.re);
        im.add(other.im);
        re_size += other.re_size;
        im_size += other.im_size;
    }
};

/// Σx of the elements that are not finite, by the rules of IEEE 754; 0 where there are none.
template <class T>
struct SpecialState {
    double re = 0;
    double im = 0;

    void add(T value, double) {
        if (!std::isfinite(real_of(value))) re += real_of(value);
        if (!std::isfinite(imag_of(value))) im += imag_of(value);
    }
    void merge(const SpecialState& other) {
        re += other.re;
        im += other.im;
    }
};

template <class T>
struct WholeSumState {
    Int128 sum = 0;

    void add(T value, double) { sum += value; }
    void merge(const WholeSumState& other) { sum += other.sum; }
};

/// Σx² of all parts.
template <class T>
struct SquaresState {
    Twice sum;
    double special = 0;  ///< infinity or NaN where an element is

    void add(T value, double scale) {
        add_square(real_of(value) * scale);
        if constexpr (kIsComplex<T>) add_square(imag_of(value) * scale);
    }
    void merge(const SquaresState& other) {
        sum.add(other.sum);
        special += other.special;
    }

  private:
    void add_square(double x) {
        const double square = x * x;
        sum.add(square);
        if (!std::isfinite(x)) special += std::fabs(x);
        // The squares of narrower types are exact.
        if constexpr (sizeof(T) >= 8 && !std::is_same_v<T, std::complex<float>>)
            sum.add(__builtin_fma(x, x, -square));
    }
};

/// Σx² of integers, |x| = a·2^32 + b: Σa², Σab and Σb², exactly.
template <class T>
struct WholeSquaresState {
    Unsigned128 aa = 0;
    Unsigned128 ab = 0;
    Unsigned128 bb = 0;

    void add(T value, double) {
        auto size = static_cast<std::uint64_t>(value);
        if (value < T{}) size = 0 - size;
        const std::uint64_t a = size >> 32U;
        const std::uint64_t b = size & 0xffffffffU;
        aa += Unsigned128{a} * a;
        ab += Unsigned128{a} * b;
        bb += Unsigned128{b} * b;
    }
    void merge(const WholeSquaresState& other) {
        aa += other.aa;
        ab += other.ab;
        bb += other.bb;
    }
};

/// Extremes and counts; `Value` is what elements are compared as.
template <class T>
struct OrderState {
    using Value = std::conditional_t<std::is_integral_v<T>, T, double>;
    Value least{};
    Value largest{};
    std::int64_t count = 0;  ///< that are not NaN
    std::int64_t nans = 0;

    void add(T value, double) {
        Value x{};
        if constexpr (kIsComplex<T>) {
            x = modulus_of(value);
        } else {
            x = static_cast<Value>(value);
        }
        if constexpr (!std::is_integral_v<T>) {
            if (std::isnan(x)) {
                ++nans;
                return;
            }
        }
        least = count == 0 || x < least ? x : least;
        largest = count == 0 || x > largest ? x : largest;
        ++count;
    }
    void merge(const OrderState& other) {
        if (other.count > 0) {
            least = count == 0 || other.least < least ? other.least : least;
            largest = count == 0 || other.largest > largest ? other.largest : largest;
        }
        count += other.count;
        nans += other.nans;
    }

  private:
    static double modulus_of(T value) {
        const double re = real_of(value);
        const double im = imag_of(value);
        return std::isnan(re) || std::isnan(im) ? std::numeric_limits<double>::quiet_NaN()
                                                : std::hypot(re, im);
    }
};

// ---- Walking the matrix ----

enum class Axis { all, rows, columns };

struct Walk {
    const Operands& operands;
    std::int64_t m;
    std::int64_t n;
    Axis axis;
    int threads;
    double scale = 1;

    [[nodiscard]] std::int64_t results() const { return axis == Axis::all ? 1 : axis == Axis::rows ? m : n; }
    [[nodiscard]] std::int64_t elements() const {
        return axis == Axis::all ? m * n : axis == Axis::rows ? n : m;
    }
    [[nodiscard]] bool empty() const { return m == 0 || n == 0; }
};

constexpr std::int64_t kAtOnce = std::int64_t{1} << 16U;
constexpr std::int64_t kColumnsAtOnce = 64;

template <class State, class T>
State state_of_row(const T* from, std::int64_t count, double scale) {
    constexpr std::int64_t kLanes = 8;  // that do not wait for each other
    std::array<State, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            lanes[static_cast<std::size_t>(lane)].add(from[i + lane], scale);
    }
    for (; i < count; ++i) lanes[0].add(from[i], scale);
    for (std::size_t lane = 1; lane < lanes.size(); ++lane) lanes[0].merge(lanes[lane]);
    return lanes[0];
}

template <class State, class T>
std::vector<State> states_of_rows(const Walk& walk) {
    std::vector<State> states(static_cast<std::size_t>(walk.m));
    const std::int64_t across = (walk.n + kAtOnce - 1) / kAtOnce;
    std::vector<State> parts(across > 1 ? static_cast<std::size_t>(walk.m * across) : 0);
    const std::int64_t together = std::max<std::int64_t>(1, kAtOnce / walk.n);
    parallel_for(walk.m * across, together, walk.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t col = i % across * kAtOnce;
            const T* row = walk.operands.a.as<T>() + i / across * walk.operands.a.pitch;
            State found = state_of_row<State>(row + col, std::min(kAtOnce, walk.n - col), walk.scale);
            (across > 1 ? parts : states)[static_cast<std::size_t>(i)] = std::move(found);
        }
    });
    for (std::size_t i = 0; i < parts.size(); ++i)
        states[i / static_cast<std::size_t>(across)].merge(parts[i]);
    return states;
}

template <class State, class T>
std::vector<State> states_of_columns(const Walk& walk) {
    const std::int64_t rows_at_once = std::max<std::int64_t>(1024, walk.m / 64);
    const std::int64_t down = (walk.m + rows_at_once - 1) / rows_at_once;
    const std::int64_t across = (walk.n + kColumnsAtOnce - 1) / kColumnsAtOnce;
    std::vector<State> states(static_cast<std::size_t>(down * walk.n));
    parallel_for(down * across, 1, walk.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t left = i % across * kColumnsAtOnce;
            const std::int64_t right = std::min(walk.n, left + kColumnsAtOnce);
            const std::int64_t top = i / across * rows_at_once;
            State* part = states.data() + i / across * walk.n;
            for (std::int64_t row = top; row < std::min(walk.m, top + rows_at_once); ++row) {
                const T* from = walk.operands.a.as<T>() + row * walk.operands.a.pitch;
                for (std::int64_t col = left; col < right; ++col) part[col].add(from[col], walk.scale);
            }
        }
    });
    for (std::int64_t i = walk.n; i < down * walk.n; ++i)
        states[static_cast<std::size_t>(i % walk.n)].merge(states[static_cast<std::size_t>(i)]);
    states.resize(static_cast<std::size_t>(walk.n));
    return states;
}

/// A state for each result.
template <class State, class T>
std::vector<State> states_of(const Walk& walk) {
    if (walk.empty()) return std::vector<State>(static_cast<std::size_t>(walk.results()));
    if (walk.axis == Axis::columns) return states_of_columns<State, T>(walk);
    if (walk.axis == Axis::rows) return states_of_rows<State, T>(walk);
    Walk one = walk;
    if (is_contiguous(walk.operands.a)) {  // rows without gaps are one row
        one.n = walk.m * walk.n;
        one.m = 1;
    }
    std::vector<State> states = states_of_rows<State, T>(one);
    for (std::size_t i = 1; i < states.size(); ++i) states[0].merge(states[i]);
    states.resize(1);
    return states;
}

// ---- Comparing ----

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

/// One reduction of a matrix of T, compared with what the level left.
template <class T>
class ReductionCheck {
  public:
    ReductionCheck(const Problem& problem, const Walk& walk, const VerifyOptions& options)
        : walk_(walk),
          type_(result_type(problem)),
          tolerance_(options.tolerance),
          op_(problem.choices.at("op")) {
        const double count = static_cast<double>(walk.elements());
        const double depth = kReducedInAChain + count / 1024;
        chain_ = narrow() ? (kReducedInAChain + 1) * kRoundoff : 0;
        rest_ = depth * kRoundoff * depth * kRoundoff;
    }

    Findings run() {
        if (op_ == "sum" || op_ == "mean") {
            std::is_integral_v<T> ? check_whole_sums() : check_sums();
        } else if (op_ == "norm") {
            std::is_integral_v<T> ? check_whole_norms() : check_norms();
        } else {
            check_order();
        }
        return found_;
    }

  private:
    /// Types that are added up in f64 as they are; f64 keeps what each addition rounds off.
    static constexpr bool narrow() {
        return !std::is_same_v<T, double> && !std::is_same_v<T, std::complex<double>>;
    }

    /// Calls `compare(i, computed)` for each result, as a complex double, or as it is where it is an integer.
    template <class Compare>
    void for_results(const Compare& compare) {
        visit_type(type_, [&]<class Result>(TypeTag<Result>) {
            const Operand c = walk_.operands.c;
            for (std::int64_t i = 0; i < walk_.results(); ++i) {
                const std::int64_t row = walk_.axis == Axis::rows ? i : 0;
                const std::int64_t col = walk_.axis == Axis::columns ? i : 0;
                compare(static_cast<std::size_t>(i), row, col, c.as<Result>()[row * c.pitch + col]);
            }
        });
    }

    template <class Result>
    void note(const Outcome& outcome, std::int64_t row, std::int64_t col, Result computed,
              std::complex<double> expected) {
        found_.note(outcome, row, col,
                    [&] { return std::pair(element_text(computed, type_), element_text(expected, type_)); });
    }

    // -- Sums and means of numbers that are not whole --

    void check_sums() {
        const auto states = states_of<SumState<T>, T>(walk_);
        const double count = op_ == "mean" ? static_cast<double>(walk_.elements()) : 1;
        std::vector<SumState<T>> small;  // scaled down, where sums pass the range of double
        std::vector<SpecialState<T>> special;
        for (const auto& state : states) {
            if (std::isfinite(state.re_size) && std::isfinite(state.im_size)) continue;
            Walk scaled = walk_;
            scaled.scale = kDown;
            small = states_of<SumState<T>, T>(scaled);
            special = states_of<SpecialState<T>, T>(walk_);
            break;
        }
        for_results([&](std::size_t i, std::int64_t row, std::int64_t col, auto computed) {
            const std::complex<double> c = as_complex(computed);
            const SumState<T>& down = small.empty() ? states[i] : small[i];
            const SpecialState<T> odd = special.empty() ? SpecialState<T>{} : special[i];
            const auto& [sum_re, sum_im, size_re, size_im] = states[i];
            const Outcome re =
                compare_part(c.real(), {sum_re, size_re}, {down.re, down.re_size}, odd.re, count);
            const Outcome im =
                compare_part(c.imag(), {sum_im, size_im}, {down.im, down.im_size}, odd.im, count);
            note(im.ratio > re.ratio ? im : re, row, col, computed, {re.expected.real(), im.expected.real()});
        });
    }

    struct Sum {
        Twice value;
        double size;  ///< Σ|x|
    };

    /// `small` is the same sum scaled by kDown where its size is not finite, `special` the sum of the
    /// elements that are not.
    [[nodiscard]] Outcome compare_part(double computed, const Sum& sum, const Sum& small, double special,
                                       double count) const {
        if (std::isfinite(sum.size)) return compare_sum(computed, sum.value, sum.size, count, 0);
        if (!std::isfinite(special)) return outcome_of(computed, special, 0, 0);
        if (!std::isfinite(computed)) return kRight;  // the additions passed the range
        return compare_sum(computed * kDown, small.value, small.size, count, kTiniest);
    }

    [[nodiscard]] Outcome compare_sum(double computed, const Twice& sum, double size, double count,
                                      double more) const {
        const double mean = sum.high / count;
        // What the division of the reference leaves, to twice the precision as well.
        const double left = (__builtin_fma(-mean, count, sum.high) + sum.low) / count;
        double tolerance = (chain_ + rest_) * size / count + 3 * kRoundoff * std::fabs(mean);
        if (tolerance_) tolerance = *tolerance_ * size / count;
        if (count != 1) tolerance += kTiniest;
        return outcome_of(computed, mean, left, tolerance + more);
    }

    // -- Whole numbers --

    void check_whole_sums() {
        if constexpr (std::is_integral_v<T>) {
            const auto states = states_of<WholeSumState<T>, T>(walk_);
            for_results([&](std::size_t i, std::int64_t row, std::int64_t col, auto computed) {
                using Result = decltype(computed);
                const Int128 sum = states[i].sum;
                if constexpr (std::is_integral_v<Result>) {
                    const auto expected = static_cast<Result>(static_cast<std::uint64_t>(sum));
                    if (static_cast<Int128>(expected) != sum) ++found_.wrapped;
                    note_whole(computed, expected, row, col);
                } else if constexpr (std::is_same_v<Result, double>) {
                    const Twice exact = twice_of(sum);
                    Outcome outcome =
                        compare_sum(computed, exact, 0, static_cast<double>(walk_.elements()), 0);
                    note(outcome, row, col, computed, outcome.expected);
                }
            });
        }
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
        const double bound = tolerance_.value_or((kReducedInAChain / 2 + 8) * kRoundoff + rest_);
        // Scaled back, the result may be beyond the range, or among the numbers of few digits.
        const Outcome outcome = outcome_of(computed * scale, root, rest, bound * root + kTiniest * scale);
        const bool beyond =
            !std::isfinite(computed) && root / scale * (1 + bound) > std::numeric_limits<double>::max();
        note(beyond && std::isinf(computed) ? kRight : outcome, row, col, computed, root / scale);
    }

    void check_norms() {
        const auto states = states_of<SquaresState<T>, T>(walk_);
        Walk up = walk_;
        up.scale = kUp;
        Walk down = walk_;
        down.scale = kDown;
        std::vector<SquaresState<T>> large;
        std::vector<SquaresState<T>> small;
        for (const auto& state : states) {
            if (!(state.sum.high < 0x1p900) && large.empty()) large = states_of<SquaresState<T>, T>(down);
            if (state.sum.high < 0x1p-900 && small.empty()) small = states_of<SquaresState<T>, T>(up);
        }
        for_results([&](std::size_t i, std::int64_t row, std::int64_t col, auto computed) {
            if constexpr (std::is_same_v<decltype(computed), double>) {
                const Twice& plain = states[i].sum;
                if (const double special = states[i].special; special != 0) {
                    note(outcome_of(computed, special, 0, 0), row, col, computed, special);
                } else if (!(plain.high < 0x1p900)) {
                    compare_norm(computed, large[i].sum, kDown, row, col);
                } else if (plain.high < 0x1p-900) {
                    compare_norm(computed, small[i].sum, kUp, row, col);
                } else {
                    compare_norm(computed, plain, 1, row, col);
                }
            }
        });
    }

    void check_whole_norms() {
        if constexpr (std::is_integral_v<T>) {
            const auto states = states_of<WholeSquaresState<T>, T>(walk_);
            for_results([&](std::size_t i, std::int64_t row, std::int64_t col, auto computed) {
                if constexpr (std::is_same_v<decltype(computed), double>) {
                    Twice squares;
                    for (const auto& [sum, unit] :
                         {std::pair(states[i].aa, 0x1p64), std::pair(states[i].ab, 0x1p33),
                          std::pair(states[i].bb, 1.0)}) {
                        squares.add(static_cast<double>(static_cast<std::uint64_t>(sum >> 96U)) * 0x1p96 *
                                    unit);
                        squares.add(static_cast<double>(static_cast<std::uint32_t>(sum >> 64U)) * 0x1p64 *
                                    unit);
                        squares.add(static_cast<double>(static_cast<std::uint32_t>(sum >> 32U)) * 0x1p32 *
                                    unit);
                        squares.add(static_cast<double>(static_cast<std::uint32_t>(sum)) * unit);
                    }
                    compare_norm(computed, squares, 1, row, col);
                }
            });
        }
    }

    // -- Extremes and counts --

    void check_order() {
        const auto states = states_of<OrderState<T>, T>(walk_);
        for_results([&](std::size_t i, std::int64_t row, std::int64_t col, auto computed) {
            using Result = decltype(computed);
            const OrderState<T>& state = states[i];
            if (op_ == "nan-count") {
                if constexpr (std::is_same_v<Result, std::uint64_t>)
                    note_whole(computed, static_cast<std::uint64_t>(state.nans), row, col);
                return;
            }
            if constexpr (std::is_integral_v<T>) {
                if constexpr (std::is_integral_v<Result>)
                    note_whole(computed, whole_extreme<Result>(state), row, col);
            } else if constexpr (!std::is_integral_v<Result>) {
                const double expected = state.nans > 0  ? std::numeric_limits<double>::quiet_NaN()
                                        : op_ == "min"  ? state.least
                                        : op_ == "max"  ? state.largest
                                        : kIsComplex<T> ? state.largest
                                        : state.count > 0
                                            ? std::max(std::fabs(state.least), std::fabs(state.largest))
                                            : 0.0;
                const double tolerance = kIsComplex<T> ? 8 * kRoundoff * expected + kTiniest : 0;
                note(outcome_of(as_complex(computed).real(), expected, 0, tolerance), row, col, computed,
                     expected);
            }
        });
    }

    template <class Result>
    [[nodiscard]] Result whole_extreme(const OrderState<T>& state) const {
        if (op_ == "min") return static_cast<Result>(state.least);
        if (op_ == "max") return static_cast<Result>(state.largest);
        const Int128 low = state.least;
        const Int128 high = state.largest;
        return static_cast<Result>(std::max(low < 0 ? -low : low, high < 0 ? -high : high));
    }

    Walk walk_;
    Type type_;
    std::optional<double> tolerance_;
    std::string op_;
    double chain_ = 0;  ///< error of chains of additions in f64, relative to Σ|x|
    double rest_ = 0;   ///< of what keeps its roundings
    Findings found_;
};

Walk walk_of(const Problem& problem, const Operands& operands, int threads) {
    const std::string& axis = problem.choices.at("axis");
    return {.operands = operands,
            .m = problem.m,
            .n = problem.n,
            .axis = axis == "rows"      ? Axis::rows
                    : axis == "columns" ? Axis::columns
                                        : Axis::all,
            .threads = threads};
}

}  // namespace

Verification verify_reduction(const Problem& asked, const Operands& operands, const VerifyOptions& options) {
    if (options.mode == VerifyMode::none) return {};
    Problem problem = asked;
    problem.choices.insert({{"op", "sum"}, {"axis", "all"}});  // those chosen stay
    const Walk walk = walk_of(problem, operands, options.threads);
    if (walk.results() == 0) return verification_of("full", {});
    const Findings found = visit_type(
        problem.type, [&]<class T>(TypeTag<T>) { return ReductionCheck<T>(problem, walk, options).run(); });
    Verification result = verification_of("full", found);
    if (options.mode == VerifyMode::freivalds) result.note = "a reduction is verified in full";
    return result;
}

std::uint64_t reduction_verification_bytes(const Problem& problem, VerifyMode mode) {
    if (mode == VerifyMode::none) return 0;
    const Shape results = problem.operation->result(problem);
    constexpr std::uint64_t kStateBytes = 64;  // at least as many as any state has, twice where it is scaled
    const auto columns = static_cast<std::uint64_t>(results.cols > 1 ? 65 : 1);
    return static_cast<std::uint64_t>(results.rows) * static_cast<std::uint64_t>(results.cols) * columns * 2 *
           kStateBytes;
}

}  // namespace gpumat
