#pragma once

// What a reduction carries along, on the CPU and on the GPU. Every level adds elements to a `Run`, which is
// as cheap as it can be and good for kLongestRun elements, and takes runs into a `Total`, which is good for
// any number of them. README.md derives how far a result may be from the exact one.
//
// The runs are written for a number or for a vector of numbers (GCC's vector extensions), a lane each.

#include <bit>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/numbers/half.hpp"
#include "kernels/reduce/operation.hpp"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define GPUMAT_BOTH __host__ __device__ __forceinline__
#else
#define GPUMAT_BOTH __attribute__((always_inline)) inline
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors pass through functions that are inlined
#endif

namespace gpumat::reduce {

/// The most elements that may be added to a run (to each lane of it).
inline constexpr std::int64_t kLongestRun = 4096;

template <class T>
struct PartOf {
    using Type = T;
    static constexpr bool kComplex = false;
};
template <class P>
struct PartOf<std::complex<P>> {
    using Type = P;
    static constexpr bool kComplex = true;
};

/// A complex element.
template <class F>
struct Pair {
    F re;
    F im;
};

template <class T>
inline constexpr bool kNarrowFloat =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, float>;

/// A stored number as one that is calculated with; exact, but for 64-bit integers as double.
template <class Number, class Part>
GPUMAT_BOTH Number number_of(Part part) {
    if constexpr (std::is_same_v<Part, BFloat16>) {
        return static_cast<Number>(std::bit_cast<float>(static_cast<std::uint32_t>(part.bits) << 16U));
    } else if constexpr (std::is_same_v<Part, Half>) {
#ifdef __CUDA_ARCH__
        return static_cast<Number>(__half2float(__ushort_as_half(part.bits)));
#else
        const std::uint32_t bits = part.bits;
        const std::uint32_t magnitude = (bits & 0x7fffU) << 13U;
        float value = std::bit_cast<float>(magnitude) * 0x1p112F;  // the bias of f32 less that of f16
        if ((bits & 0x7c00U) == 0x7c00U) value = std::bit_cast<float>(magnitude | 0x7f800000U);
        return static_cast<Number>((bits & 0x8000U) != 0 ? -value : value);
#endif
    } else {
        return static_cast<Number>(part);
    }
}

/// The stored number that a calculated one, taken from one, came from.
template <class Part, class Number>
GPUMAT_BOTH Part stored_as(Number number) {
    if constexpr (std::is_same_v<Part, BFloat16>) {
        BFloat16 stored;
        stored.bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16U);
        return stored;
    } else if constexpr (std::is_same_v<Part, Half>) {
#ifdef __CUDA_ARCH__
        Half stored;
        stored.bits = __half_as_ushort(__float2half_rn(number));
        return stored;
#else
        return Half(static_cast<double>(number));
#endif
    } else {
        return static_cast<Part>(number);
    }
}

/// 1 where the comparison holds, else 0.
template <class F, class Mask>
GPUMAT_BOTH F ones(const Mask& mask) {
    if constexpr (std::is_arithmetic_v<F>) {
        return static_cast<F>(mask);
    } else {
        return -(F)mask;  // NOLINT: a mask is all ones, and the cast keeps the bits
    }
}

template <class F>
GPUMAT_BOTH F magnitude(const F& x) {
    return x < F{} ? -x : x;
}

GPUMAT_BOTH double root_of(double x) {
#ifdef __CUDA_ARCH__
    return ::sqrt(x);
#else
    return __builtin_sqrt(x);
#endif
}

// ---- Runs ------------------------------------------------------------------------------------------------

/// Σx, in whole numbers that have room for a run, or in double of elements that are narrower.
template <class F>
struct RunSum {
    F sum{};

    GPUMAT_BOTH void add(const F& x) { sum += x; }
};

/// Σx and what the additions rounded off (Knuth's two-sum).
template <class F>
struct RunTwofold {
    F sum{};
    F rest{};

    GPUMAT_BOTH void add(const F& x) {
        const F next = sum + x;
        const F part = next - sum;
        rest += (sum - (next - part)) + (x - part);
        sum = next;
    }
};

/// Σx of 64-bit integers in 128 bits; F is unsigned.
template <class F, bool kSigned>
struct RunWide {
    F low{};
    F high{};

    GPUMAT_BOTH void add(const F& x) {
        low += x;
        high += ones<F>(low < x);
        if constexpr (kSigned) high -= x >> 63;  // a negative number's upper half is −1
    }
};

/// Σx² in double, of what has no square beyond its range.
template <class F>
struct RunSquares {
    F sum{};

    GPUMAT_BOTH void add(const F& x) { sum += x * x; }
};

/// Numbers beyond these bounds are scaled before they are squared.
inline constexpr double kLarge = 0x1p500;
inline constexpr double kSmall = 0x1p-500;
inline constexpr double kScale = 0x1p600;

/// Σx² of doubles of any size, in three sums (after J. Blue, "A Portable Fortran Program to Find the
/// Euclidean Norm of a Vector", 1978): of large numbers / kScale, of small ones · kScale, and of the others.
template <class F>
struct RunScaled {
    F large{};
    F medium{};
    F small{};

    GPUMAT_BOTH void add(const F& x) {
        const F size = magnitude(x);
        const auto is_large = size > F{} + kLarge;
        const auto is_small = size < F{} + kSmall;
        const F scaled = x * (is_large ? F{} + 1 / kScale : is_small ? F{} + kScale : F{} + 1.0);
        const F square = scaled * scaled;
        large += is_large ? square : F{};
        small += is_small ? square : F{};
        medium += is_large ? F{} : is_small ? F{} : square;  // NaN is here
    }
};

/// The smallest or the largest. Once NaN, it stays.
template <class F, class Number, bool kLargest>
struct RunExtreme {
    static constexpr bool kHasNan = std::numeric_limits<Number>::has_quiet_NaN;
    F best = F{} + start();

    GPUMAT_BOTH static constexpr Number start() {
        using Limits = std::numeric_limits<Number>;
        if constexpr (Limits::has_infinity) {
            return kLargest ? -Limits::infinity() : Limits::infinity();
        } else {
            return kLargest ? Limits::lowest() : Limits::max();
        }
    }
    GPUMAT_BOTH void add(const F& x) {
        const auto better = kLargest ? x > best : x < best;
        best = better ? x : best;
        if constexpr (kHasNan) best = x != x ? x : best;  // NOLINT: a NaN
    }
    GPUMAT_BOTH void take(const RunExtreme& other) { add(other.best); }
};

/// The smallest and the largest integer, of which one has the largest magnitude.
template <class F, class Number>
struct RunSpan {
    RunExtreme<F, Number, false> low{};
    RunExtreme<F, Number, true> high{};

    GPUMAT_BOTH void add(const F& x) {
        low.add(x);
        high.add(x);
    }
    GPUMAT_BOTH void take(const RunSpan& other) {
        low.take(other.low);
        high.take(other.high);
    }
};

/// The largest magnitude, from 0. Once NaN, it stays.
template <class F>
struct RunLargest {
    F best{};

    GPUMAT_BOTH void add(const F& x) { add_magnitude(magnitude(x)); }
    GPUMAT_BOTH void take(const RunLargest& other) { add_magnitude(other.best); }
    GPUMAT_BOTH void add_magnitude(const F& size) {
        best = size > best ? size : best;
        best = size != size ? size : best;  // NOLINT: a NaN
    }
};

/// The largest re² + im², where no square passes the range of double.
template <class F>
struct RunModulus {
    RunLargest<F> square{};

    GPUMAT_BOTH void add(const Pair<F>& x) { square.add_magnitude(x.re * x.re + x.im * x.im); }
    GPUMAT_BOTH void take(const RunModulus& other) { square.take(other.square); }
    GPUMAT_BOTH double value() const { return root_of(square.best); }
};

/// The same of doubles of any size: the largest of three kinds, as RunScaled has them.
template <class F>
struct RunScaledModulus {
    RunLargest<F> large{};
    RunLargest<F> medium{};
    RunLargest<F> small{};

    GPUMAT_BOTH void add(const Pair<F>& x) {
        const F re = magnitude(x.re);
        const F im = magnitude(x.im);
        const F size = re > im ? re : im;
        const auto is_large = size > F{} + kLarge;
        const auto is_small = size < F{} + kSmall;
        const F scale = is_large ? F{} + 1 / kScale : is_small ? F{} + kScale : F{} + 1.0;
        const F a = re * scale;
        const F b = im * scale;
        const F square = a * a + b * b;
        large.add_magnitude(is_large ? square : F{});
        small.add_magnitude(is_small ? square : F{});
        medium.add_magnitude(is_large ? F{} : is_small ? F{} : square);
        // NaN in the part that was not compared is in one of the squares as well.
    }
    GPUMAT_BOTH void take(const RunScaledModulus& other) {
        large.take(other.large);
        medium.take(other.medium);
        small.take(other.small);
    }
    GPUMAT_BOTH double value() const {
        RunLargest<double> best;
        best.add_magnitude(root_of(large.best) * kScale);
        best.add_magnitude(root_of(medium.best));
        best.add_magnitude(root_of(small.best) / kScale);
        return best.best;
    }
};

/// How many are NaN; the count has the width of a lane.
template <class F, class Count>
struct RunCount {
    Count count{};

    GPUMAT_BOTH void add(const F& x) { count += ones<Count>(x != x); }  // NOLINT: NaN
    GPUMAT_BOTH void add(const Pair<F>& x) { count += ones<Count>((x.re != x.re) | (x.im != x.im)); }
};

/// No integer is NaN.
template <class F, class Count>
struct RunNothing {
    Count count{};

    GPUMAT_BOTH void add(const F&) {}
};

/// Real and imaginary parts apart.
template <class Run>
struct RunParts {
    Run re{};
    Run im{};

    template <class F>
    GPUMAT_BOTH void add(const Pair<F>& x) {
        re.add(x.re);
        im.add(x.im);
    }
};

/// Real and imaginary parts as numbers alike.
template <class Run>
struct RunBoth {
    Run run{};

    template <class F>
    GPUMAT_BOTH void add(const Pair<F>& x) {
        run.add(x.re);
        run.add(x.im);
    }
};

// ---- Totals ----------------------------------------------------------------------------------------------

/// A sum of doubles, with what its additions rounded off.
struct Twofold {
    RunTwofold<double> run{};

    GPUMAT_BOTH void add(double x) { run.add(x); }
    GPUMAT_BOTH void take(const RunSum<double>& other) { run.add(other.sum); }
    GPUMAT_BOTH void take(const RunSquares<double>& other) { run.add(other.sum); }
    GPUMAT_BOTH void take(const RunBoth<RunSquares<double>>& other) { run.add(other.run.sum); }
    GPUMAT_BOTH void take(const RunTwofold<double>& other) {
        run.add(other.sum);
        run.rest += other.rest;
    }
    GPUMAT_BOTH void take(const Twofold& other) { take(other.run); }
    /// Beyond the range of double the rest is NaN, and the sum says what it is.
    GPUMAT_BOTH double value() const {
        const double sum = run.sum;
        return sum - sum == 0 ? sum + run.rest : sum;
    }
};

struct TwofoldParts {
    Twofold re{};
    Twofold im{};

    template <class Run>
    GPUMAT_BOTH void take(const Run& other) {
        re.take(other.re);
        im.take(other.im);
    }
};

struct ScaledSquares {
    Twofold large{};
    Twofold medium{};
    Twofold small{};

    GPUMAT_BOTH void take(const RunScaled<double>& other) {
        large.add(other.large);
        medium.add(other.medium);
        small.add(other.small);
    }
    GPUMAT_BOTH void take(const RunBoth<RunScaled<double>>& other) { take(other.run); }
    GPUMAT_BOTH void take(const ScaledSquares& other) {
        large.take(other.large);
        medium.take(other.medium);
        small.take(other.small);
    }
    /// The square root of the sum. A kind that is there decides the scale: the next smaller one adds what it
    /// has, and what is smaller still is beyond the last digit.
    GPUMAT_BOTH double root() const {
        constexpr double kDown = 1 / kScale;
        const double a = large.value();
        const double b = medium.value();
        const double c = small.value();
        if (a != 0) return root_of(a + b * kDown * kDown) * kScale;
        if (b != 0) return root_of(b + c * kDown * kDown);
        return root_of(c) * kDown;
    }
};

/// A sum of integers in 128 bits.
struct Int128 {
    std::uint64_t low = 0;
    std::uint64_t high = 0;

    GPUMAT_BOTH void take(const Int128& other) {
        low += other.low;
        high += other.high + (low < other.low ? 1 : 0);
    }
    template <class Number>
    GPUMAT_BOTH void take(const RunSum<Number>& other) {
        const auto number = static_cast<std::uint64_t>(static_cast<std::int64_t>(other.sum));
        take(Int128{number, other.sum < 0 ? ~std::uint64_t{0} : 0});
    }
    template <bool kSigned>
    GPUMAT_BOTH void take(const RunWide<std::uint64_t, kSigned>& other) {
        take(Int128{other.low, other.high});
    }
    GPUMAT_BOTH double value() const {
        const bool negative = high >> 63U != 0;
        const std::uint64_t a = negative ? ~low + 1 : low;
        const std::uint64_t b = negative ? ~high + (low == 0 ? 1 : 0) : high;
        const double size = static_cast<double>(b) * 0x1p64 + static_cast<double>(a);
        return negative ? -size : size;
    }
};

/// A run as a total, of at least a word, as GPUs move it.
template <class Run>
struct alignas(alignof(Run) < 4 ? 4 : alignof(Run)) RunTotal : Run {};

struct CountTotal {
    std::uint64_t count = 0;

    template <class Run>
    GPUMAT_BOTH void take(const Run& other) {
        count += static_cast<std::uint64_t>(other.count);
    }
};

// ---- What each reduction of each type takes of these

template <class Part>
using WholeSum = std::conditional_t<sizeof(Part) <= 2, std::int32_t,
                                    std::conditional_t<sizeof(Part) == 4, std::int64_t, std::uint64_t>>;

/// A Number of a vector's lanes as the signed integer of the same size.
template <class Number>
using CountLane = std::conditional_t<
    sizeof(Number) == 8, std::int64_t,
    std::conditional_t<sizeof(Number) == 4, std::int32_t,
                       std::conditional_t<sizeof(Number) == 2, std::int16_t, std::int8_t>>>;

/// `Number` is what elements are converted to, `Run<F, Count>` a run of numbers or vectors F with counts in
/// Count, `Result` what is stored.
template <Reduction R, class T>
struct Reducer;

template <class T>
struct Reducer<Reduction::sum, T> {
    using Part = typename PartOf<T>::Type;
    static constexpr bool kComplex = PartOf<T>::kComplex;
    static constexpr bool kWhole = std::is_integral_v<T>;
    using Number = std::conditional_t<kWhole, WholeSum<Part>, double>;
    template <class F>
    using PartRun = std::conditional_t<
        kWhole, std::conditional_t<sizeof(Part) == 8, RunWide<F, std::is_signed_v<Part>>, RunSum<F>>,
        std::conditional_t<std::is_same_v<Part, double>, RunTwofold<F>, RunSum<F>>>;
    template <class F, class Count>
    using Run = std::conditional_t<kComplex, RunParts<PartRun<F>>, PartRun<F>>;
    using Total = std::conditional_t<kWhole, Int128, std::conditional_t<kComplex, TwofoldParts, Twofold>>;
    using Result =
        std::conditional_t<kWhole, std::conditional_t<std::is_signed_v<Part>, std::int64_t, std::uint64_t>,
                           std::conditional_t<kComplex, Pair<double>, double>>;

    GPUMAT_BOTH static Result finish(const Total& total, std::int64_t) {
        if constexpr (kWhole) {
            return static_cast<Result>(total.low);
        } else if constexpr (kComplex) {
            return {total.re.value(), total.im.value()};
        } else {
            return total.value();
        }
    }
};

template <class T>
struct Reducer<Reduction::mean, T> : Reducer<Reduction::sum, T> {
    using Sum = Reducer<Reduction::sum, T>;
    using Total = typename Sum::Total;
    using Result = std::conditional_t<Sum::kComplex, Pair<double>, double>;

    GPUMAT_BOTH static Result finish(const Total& total, std::int64_t elements) {
        const auto count = static_cast<double>(elements);
        if constexpr (Sum::kComplex) {
            return {total.re.value() / count, total.im.value() / count};
        } else {
            return total.value() / count;
        }
    }
};

template <class T>
struct Reducer<Reduction::norm, T> {
    using Part = typename PartOf<T>::Type;
    using Number = double;
    static constexpr bool kScaled = std::is_same_v<Part, double>;
    template <class F>
    using PartRun = std::conditional_t<kScaled, RunScaled<F>, RunSquares<F>>;
    template <class F, class Count>
    using Run = std::conditional_t<PartOf<T>::kComplex, RunBoth<PartRun<F>>, PartRun<F>>;
    using Total = std::conditional_t<kScaled, ScaledSquares, Twofold>;
    using Result = double;

    GPUMAT_BOTH static Result finish(const Total& total, std::int64_t) {
        if constexpr (kScaled) {
            return total.root();
        } else {
            return root_of(total.value());
        }
    }
};

template <class Part>
using ComparedAs = std::conditional_t<kNarrowFloat<Part>, float, Part>;

template <class T, bool kLargest>
struct ExtremeReducer {
    using Part = T;
    using Number = ComparedAs<T>;
    template <class F, class Count>
    using Run = RunExtreme<F, Number, kLargest>;
    using Total = RunTotal<Run<Number, Number>>;
    using Result = T;

    GPUMAT_BOTH static Result finish(const Total& total, std::int64_t) { return stored_as<T>(total.best); }
};
template <class T>
struct Reducer<Reduction::min, T> : ExtremeReducer<T, false> {};
template <class T>
struct Reducer<Reduction::max, T> : ExtremeReducer<T, true> {};

template <class T>
struct Reducer<Reduction::absmax, T> {
    using Part = typename PartOf<T>::Type;
    static constexpr bool kComplex = PartOf<T>::kComplex;
    static constexpr bool kWhole = std::is_integral_v<T>;
    using Number = std::conditional_t<kComplex, double, ComparedAs<Part>>;
    template <class F>
    using ModulusRun = std::conditional_t<std::is_same_v<Part, double>, RunScaledModulus<F>, RunModulus<F>>;
    template <class F, class Count>
    using Run = std::conditional_t<kComplex, ModulusRun<F>,
                                   std::conditional_t<kWhole, RunSpan<F, Number>, RunLargest<F>>>;
    using Total = RunTotal<Run<Number, Number>>;
    template <class U>
    struct Unsigned {
        using Type = U;
    };
    template <class U>
    requires std::is_integral_v<U>
    struct Unsigned<U> {
        using Type = std::make_unsigned_t<U>;
    };
    using Result = std::conditional_t<kComplex, double, typename Unsigned<Part>::Type>;

    GPUMAT_BOTH static Result finish(const Total& total, std::int64_t elements) {
        if constexpr (kComplex) {
            return total.value();
        } else if constexpr (kWhole) {
            if (elements == 0) return 0;
            const auto high = static_cast<Result>(total.high.best);
            if constexpr (std::is_signed_v<T>) {
                if (total.low.best >= 0) return high;
                const auto below = static_cast<Result>(Result{0} - static_cast<Result>(total.low.best));
                return total.high.best > 0 && high > below ? high : below;
            } else {
                return high;
            }
        } else {
            return stored_as<T>(total.best);
        }
    }
};

template <class T>
struct Reducer<Reduction::nan_count, T> {
    using Part = typename PartOf<T>::Type;
    using Number = ComparedAs<Part>;
    template <class F, class Count>
    using Run = std::conditional_t<std::is_integral_v<Part>, RunNothing<F, Count>, RunCount<F, Count>>;
    using Total = CountTotal;
    using Result = std::uint64_t;

    GPUMAT_BOTH static Result finish(const Total& total, std::int64_t) { return total.count; }
};

/// Where results of `elements` elements each go: finished, or as totals.
template <class R>
struct Results {
    typename R::Total* totals;
    typename R::Result* out;  ///< the same memory
    bool unfinished;
    std::int64_t step;
    std::int64_t elements;

    Results(const Problem& problem, const MutableOperand& result)
        : totals(result.as<typename R::Total>()),
          out(result.as<typename R::Result>()),
          unfinished(problem.unfinished),
          step(result_step(problem, result)),
          elements(elements_of(problem)) {}

    GPUMAT_BOTH void store(std::int64_t at, const typename R::Total& total) const {
        if (unfinished) {
            totals[at] = total;
        } else {
            out[at * step] = R::finish(total, elements);
        }
    }
};

/// The run of single numbers.
template <class R>
using ScalarRun = typename R::template Run<typename R::Number, CountLane<typename R::Number>>;

/// An element as a run takes it.
template <class R, class T>
GPUMAT_BOTH auto element_at(const T* from) {
    using Number = typename R::Number;
    using Part = typename PartOf<T>::Type;
    const auto* parts = reinterpret_cast<const Part*>(from);
    if constexpr (PartOf<T>::kComplex) {
        return Pair<Number>{number_of<Number>(parts[0]), number_of<Number>(parts[1])};
    } else {
        return number_of<Number>(parts[0]);
    }
}

template <Reduction R>
struct ReductionTag {
    static constexpr Reduction kReduction = R;
};

/// Calls `function(Reducer<R, T>{}, TypeTag<T>{})` for the problem's reduction and type; min and max have no
/// complex types.
template <class Function>
decltype(auto) visit_reducer(const Problem& problem, Function&& function) {
    return visit_type(problem.type, [&]<class T>(TypeTag<T> tag) {
        switch (reduction_of(problem)) {
            case Reduction::sum:
                return function(Reducer<Reduction::sum, T>{}, tag);
            case Reduction::mean:
                return function(Reducer<Reduction::mean, T>{}, tag);
            case Reduction::norm:
                return function(Reducer<Reduction::norm, T>{}, tag);
            case Reduction::absmax:
                return function(Reducer<Reduction::absmax, T>{}, tag);
            case Reduction::nan_count:
                return function(Reducer<Reduction::nan_count, T>{}, tag);
            case Reduction::min:
                if constexpr (!PartOf<T>::kComplex) return function(Reducer<Reduction::min, T>{}, tag);
                break;
            case Reduction::max:
                if constexpr (!PartOf<T>::kComplex) return function(Reducer<Reduction::max, T>{}, tag);
                break;
        }
        __builtin_unreachable();  // reduction_reasons refuses what has no order
    });
}

}  // namespace gpumat::reduce
