#pragma once

// What a reduction carries along, on the CPU and on the GPU. Every level adds elements to a run, and takes
// runs into a total. README.md derives how far a result may be from the exact one.
//
// Levels are compiled for each accumulator of each type. Reductions share one where they differ only in how
// they end (a mean is a sum with a last division) or in the order of numbers, which a `Mirror` turns.

#include "kernels/reduce/totals.hpp"

namespace gpumat::reduce {

/// A Number of a vector's lanes as the signed integer of the same size.
template <class Number>
using CountLane = std::make_signed_t<BitsOf<sizeof(Number)>>;

template <class Part>
inline constexpr bool kNarrowFloat =
    std::is_same_v<Part, Half> || std::is_same_v<Part, BFloat16> || std::is_same_v<Part, float>;

template <class Part>
using ComparedAs = std::conditional_t<kNarrowFloat<Part>, float, Part>;

enum class Carried {
    sum,      ///< sums and means
    squares,  ///< norms
    least,    ///< min, max and absmax of real numbers, of which a `Mirror` has made signed ones
    largest,  ///< absmax of signed integers, and of complex numbers
    nans      ///< the count of NaN
};

/// `Element` is what is read, `Number` what elements are converted to, `Run<F, Count>` a run of numbers or
/// vectors F with counts in Count.
template <Carried C, class T>
struct Accumulator;

template <class T>
struct Accumulator<Carried::sum, T> {
    using Element = T;
    using Part = typename PartOf<T>::Type;
    static constexpr bool kWhole = std::is_integral_v<T>;
    using Number = std::conditional_t<
        !kWhole, double,
        std::conditional_t<sizeof(Part) <= 2, std::int32_t,
                           std::conditional_t<sizeof(Part) == 4, std::int64_t, std::uint64_t>>>;
    template <class F>
    using PartRun = std::conditional_t<
        kWhole, std::conditional_t<sizeof(Part) == 8, RunWide<F, std::is_signed_v<Part>>, RunSum<F>>,
        std::conditional_t<std::is_same_v<Part, double>, RunTwofold<F>, RunSum<F>>>;
    template <class F, class Count>
    using Run = std::conditional_t<kIsComplex<T>, RunParts<PartRun<F>>, PartRun<F>>;
    using Total =
        std::conditional_t<kWhole, Int128, std::conditional_t<kIsComplex<T>, TwofoldParts, Twofold>>;
};

template <class T>
struct Accumulator<Carried::squares, T> {
    using Element = T;
    using Number = double;
    static constexpr bool kScaled = std::is_same_v<typename PartOf<T>::Type, double>;
    template <class F>
    using PartRun = std::conditional_t<kScaled, RunScaled<F>, RunSquares<F>>;
    template <class F, class Count>
    using Run = std::conditional_t<kIsComplex<T>, RunBoth<PartRun<F>>, PartRun<F>>;
    using Total = std::conditional_t<kScaled, ScaledSquares, Twofold>;
};

template <class T>
using LeastWhole = Least<std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>>;

template <class T>
struct Accumulator<Carried::least, T> {
    using Element = T;
    using Number = ComparedAs<T>;
    static constexpr bool kWhole = std::is_integral_v<T>;
    template <class F, class Count>
    using Run = std::conditional_t<kWhole, RunLeast<F, Number>, RunLeastReal<F, Number>>;
    using Total = std::conditional_t<kWhole, LeastWhole<T>, RunLeastReal<Number, Number>>;
};

template <class T>
struct Accumulator<Carried::largest, T> {
    using Element = T;
    using Number = T;
    template <class F, class Count>
    using Run = RunNegated<F, T>;
    using Total = LeastWhole<T>;
};
template <class Part>
struct Accumulator<Carried::largest, std::complex<Part>> {
    using Element = std::complex<Part>;
    using Number = double;
    template <class F, class Count>
    using Run = std::conditional_t<std::is_same_v<Part, double>, RunScaledModulus<F>, RunModulus<F>>;
    using Total = Run<double, double>;
};

template <class T>
struct Accumulator<Carried::nans, T> {
    using Element = T;
    using Number = ComparedAs<typename PartOf<T>::Type>;
    template <class F, class Count>
    using Run = RunCount<F, Count>;
    using Total = Int128;
};

/// The run of single numbers.
template <class A>
using ScalarRun = typename A::template Run<typename A::Number, CountLane<typename A::Number>>;

/// An element, which passed the mirror, as a run takes it.
template <class A>
GPUMAT_BOTH auto element_of(const typename A::Element* from) {
    using Number = typename A::Number;
    const auto* parts = reinterpret_cast<const typename PartOf<typename A::Element>::Type*>(from);
    if constexpr (kIsComplex<typename A::Element>) {
        return Pair<Number>{number_of<Number>(parts[0]), number_of<Number>(parts[1])};
    } else {
        return number_of<Number>(parts[0]);
    }
}

template <class A>
inline constexpr bool kMirrored = false;
template <class T>
inline constexpr bool kMirrored<Accumulator<Carried::least, T>> = true;

/// An element of the matrix as a run takes it.
template <class A>
GPUMAT_BOTH auto element_at(const typename A::Element* from, const Mirror& mirror) {
    if constexpr (kMirrored<A>) {
        const auto element = mirror.of(*from);
        return element_of<A>(&element);
    } else {
        return element_of<A>(from);
    }
}

/// The mirror of the problem's elements, and how its totals end.
Ending ending_of(const Problem& problem);

inline Results results_of(const Problem& problem, const MutableOperand& result) {
    return {.out = result.data,
            .unfinished = problem.unfinished,
            .step = result_step(problem, result),
            .ending = ending_of(problem)};
}

/// Calls `function(Accumulator<…>{})` for what the problem's reduction of its type carries along; the type of
/// the elements may be the signed one of the same size.
template <class Function>
decltype(auto) visit_accumulator(const Problem& problem, Function&& function) {
    const Reduction reduction = reduction_of(problem);
    return visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        constexpr bool kWhole = std::is_integral_v<T>;
        if (reduction == Reduction::sum || reduction == Reduction::mean)
            return function(Accumulator<Carried::sum, T>{});
        if (reduction == Reduction::norm) return function(Accumulator<Carried::squares, T>{});
        if (reduction == Reduction::nan_count) {
            // No integer is NaN, so that it does not matter which are read.
            using Read = std::conditional_t<kWhole, std::int8_t, T>;
            return function(Accumulator<Carried::nans, Read>{});
        }
        if constexpr (kIsComplex<T>) {  // reduction_reasons refuses what has no order
            return function(Accumulator<Carried::largest, T>{});
        } else if constexpr (!kWhole) {
            return function(Accumulator<Carried::least, T>{});
        } else {
            using Signed = std::make_signed_t<T>;
            const bool negated = std::is_signed_v<T> && reduction == Reduction::absmax;
            if (negated) return function(Accumulator<Carried::largest, Signed>{});
            return function(Accumulator<Carried::least, Signed>{});
        }
    });
}

}  // namespace gpumat::reduce
