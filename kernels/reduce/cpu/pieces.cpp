// Pieces of a matrix, reduced in vectors; see vectorized.cpp. Each is compiled for the three widths.
#include "kernels/reduce/cpu/pieces.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector.hpp"
#include "kernels/reduce/accumulators.hpp"

namespace gpumat::reduce::cpu {
namespace {

constexpr int kRuns = 4;  // that do not wait for each other
// The steps of each lane in the piece of a row; well under kLongestRun, for what is left over goes to the
// first run.
constexpr std::int64_t kSteps = kLongestRun / 2;
constexpr int kRowsAtOnce = 4;  // between a load and a store of the runs of columns

/// f16 as f32, exactly: the exponent is moved by a product, which normalises small numbers, too.
template <int kLanes>
GPUMAT_INLINE Vector<float, kLanes> widened(const Vector<std::uint16_t, kLanes>& halves) {
    using Words = Vector<std::uint32_t, kLanes>;
    const Words bits = __builtin_convertvector(halves, Words);
    const Words size = (bits & 0x7fffU) << 13U;
    const auto scaled = (Vector<float, kLanes>)size * 0x1p112F;
    const auto special = (bits & 0x7c00U) == 0x7c00U;  // infinities and NaN
    const Words found = special ? size | 0x7f800000U : (Words)scaled;
    return (Vector<float, kLanes>)(found | (bits & 0x8000U) << 16U);
}

/// Neighbouring numbers, as what is calculated with.
template <class Number, int kLanes, class Part>
GPUMAT_INLINE Vector<Number, kLanes> load(const Part* from) {
    if constexpr (std::is_same_v<Part, Half>) {
        Vector<std::uint16_t, kLanes> halves;
        std::memcpy(&halves, from, sizeof halves);
        return __builtin_convertvector(widened<kLanes>(halves), Vector<Number, kLanes>);
    } else if constexpr (std::is_same_v<Part, BFloat16>) {
        Vector<std::uint16_t, kLanes> halves;
        std::memcpy(&halves, from, sizeof halves);
        const auto words = __builtin_convertvector(halves, Vector<std::uint32_t, kLanes>) << 16U;
        return __builtin_convertvector((Vector<float, kLanes>)words, Vector<Number, kLanes>);
    } else {
        Vector<Part, kLanes> parts;
        std::memcpy(&parts, from, sizeof parts);
        return __builtin_convertvector(parts, Vector<Number, kLanes>);
    }
}

template <class V, std::size_t... kLane>
GPUMAT_INLINE Pair<V> deinterleave(const V& low, const V& high, std::index_sequence<kLane...>) {
    return {__builtin_shufflevector(low, high, (2 * kLane)...),
            __builtin_shufflevector(low, high, (2 * kLane + 1)...)};
}

/// The smallest and the largest of real numbers, and the last NaN, which has a place of its own: GCC 12
/// compares vectors of 64 bytes number by number where one comparison decides over what another chose.
template <class F, class Number>
struct RunFloatSpan {
    F low = F{} + std::numeric_limits<Number>::infinity();
    F high = F{} - std::numeric_limits<Number>::infinity();
    F nan{};

    GPUMAT_INLINE void add(const F& x) { take({x, x, x}); }
    GPUMAT_INLINE void take(const RunFloatSpan& other) {
        low = other.low < low ? other.low : low;
        high = other.high > high ? other.high : high;
        nan = other.nan != other.nan ? other.nan : nan;  // NOLINT: NaN
    }
};

template <class T>
struct Span {
    using Number = ComparedAs<T>;
    template <class F, class Count>
    using Run = RunFloatSpan<F, Number>;
    using Total = RunTotal<Run<Number, Number>>;
};

/// What carries a reduction along. Those that differ only in how they finish share one, as each is compiled
/// for every type in three widths: a mean is a sum, and a span of floating-point numbers has the minimum, the
/// maximum and the largest magnitude.
template <class R>
struct CarriedBy {
    using Type = R;
};
template <class T>
struct CarriedBy<Reducer<Reduction::mean, T>> {
    using Type = Reducer<Reduction::sum, T>;
};
template <class T>
requires(!std::is_integral_v<T>) struct CarriedBy<Reducer<Reduction::min, T>> {
    using Type = Span<T>;
};
template <class T>
requires(!std::is_integral_v<T>) struct CarriedBy<Reducer<Reduction::max, T>> {
    using Type = Span<T>;
};
template <class T>
requires(!PartOf<T>::kComplex && !std::is_integral_v<T>) struct CarriedBy<Reducer<Reduction::absmax, T>> {
    using Type = Span<T>;
};

/// The reduction's own total, of the one that carried it.
template <class Total>
void narrow(const Total& from, Total& to) {
    to = from;
}
template <class Number, bool kLargest>
void narrow(const RunFloatSpan<Number, Number>& from, RunExtreme<Number, Number, kLargest>& to) {
    to.add(kLargest ? from.high : from.low);
    to.add(from.nan != from.nan ? from.nan : to.best);  // NOLINT: NaN
}
template <class Number>
void narrow(const RunFloatSpan<Number, Number>& from, RunLargest<Number>& to) {
    if (from.low <= from.high) {  // there was a number
        to.add(from.low);
        to.add(from.high);
    }
    to.add(from.nan);
}

/// Everything for one way to carry elements of one type along, in vectors of kBytes.
template <class R, class T, int kBytes>
struct Work {
    using Number = typename R::Number;
    using Total = typename R::Total;
    using Part = typename PartOf<T>::Type;
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(Number));
    using Run = typename R::template Run<Vector<Number, kLanes>, Vector<CountLane<Number>, kLanes>>;
    // NOLINTNEXTLINE(misc-redundant-expression): may be one type
    static_assert(sizeof(Total) <= sizeof(AnyTotal));
    static_assert(alignof(Total) <= alignof(AnyTotal));  // NOLINT(misc-redundant-expression)
    static_assert(sizeof(Run) == kLanes * sizeof(ScalarRun<R>), "a run of vectors is a run in each lane");

    static GPUMAT_INLINE auto load_elements(const T* from) {
        const auto* parts = reinterpret_cast<const Part*>(from);
        const auto low = load<Number, kLanes>(parts);
        if constexpr (PartOf<T>::kComplex) {
            return deinterleave(low, load<Number, kLanes>(parts + kLanes),
                                std::make_index_sequence<kLanes>());
        } else {
            return low;
        }
    }

    /// Calls `take(lane, run)` with the run of each lane.
    template <class Take>
    static GPUMAT_INLINE void for_lanes(const Run& run, const Take& take) {
        constexpr std::size_t kNumbers = sizeof(Run) / sizeof(Number) / kLanes;
        Number numbers[kNumbers][kLanes];
        std::memcpy(&numbers, &run, sizeof run);
#pragma GCC unroll 16
        for (int lane = 0; lane < kLanes; ++lane) {
            Number of_lane[kNumbers];
            for (std::size_t i = 0; i < kNumbers; ++i) of_lane[i] = numbers[i][lane];
            ScalarRun<R> scalar;
            std::memcpy(static_cast<void*>(&scalar), &of_lane, sizeof scalar);
            take(lane, scalar);
        }
    }

    static GPUMAT_INLINE void add_row(const T* row, std::int64_t elements, Total& total) {
        Run runs[kRuns];
        std::int64_t i = 0;
        for (; i + kRuns * kLanes <= elements; i += kRuns * kLanes) {
#pragma GCC unroll 4
            for (int r = 0; r < kRuns; ++r) runs[r].add(load_elements(row + i + r * kLanes));
        }
        const int used = i > 0 ? kRuns : 1;
        for (; i + kLanes <= elements; i += kLanes) runs[0].add(load_elements(row + i));
        for (int r = 0; r < used && elements >= kLanes; ++r)
            for_lanes(runs[r], [&](int, const ScalarRun<R>& run) { total.take(run); });
        ScalarRun<R> rest;
        for (; i < elements; ++i) rest.add(element_at<R>(row + i));
        total.take(rest);
    }

    /// A run for each lane of each column, from and back to memory every few rows.
    static GPUMAT_INLINE void add_columns(const Piece& piece, AnyTotal* totals) {
        Run runs[kPieceBytes / sizeof(T) / kLanes];
        ScalarRun<R> rest[kLanes];
        const auto* top = static_cast<const T*>(piece.data);
        const std::int64_t vectors = piece.cols / kLanes;
        const std::int64_t left = vectors * kLanes;
        for (std::int64_t i = 0; i < piece.rows; i += kRowsAtOnce) {
            const T* row = top + i * piece.pitch;
            const std::int64_t rows = std::min<std::int64_t>(kRowsAtOnce, piece.rows - i);
            for (std::int64_t v = 0; v < vectors; ++v) {
                Run run = runs[v];
                if (rows == kRowsAtOnce) {
#pragma GCC unroll 4
                    for (int r = 0; r < kRowsAtOnce; ++r)
                        run.add(load_elements(row + r * piece.pitch + v * kLanes));
                } else {
                    for (std::int64_t r = 0; r < rows; ++r)
                        run.add(load_elements(row + r * piece.pitch + v * kLanes));
                }
                runs[v] = run;
            }
            for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t j = left; j < piece.cols; ++j)
                    rest[j - left].add(element_at<R>(row + r * piece.pitch + j));
            }
        }
        const auto take = [&](std::int64_t column, const ScalarRun<R>& run) {
            reinterpret_cast<Total*>(totals + column)->take(run);
        };
        for (std::int64_t v = 0; v < vectors; ++v)
            for_lanes(runs[v], [&](int lane, const ScalarRun<R>& run) { take(v * kLanes + lane, run); });
        for (std::int64_t j = left; j < piece.cols; ++j) take(j, rest[j - left]);
    }
};

// The same work in the instructions of each width.

template <class R, class T>
struct Plain {
    using Its = Work<R, T, 16>;
    static void add_row(const void* row, std::int64_t elements, AnyTotal& total) {
        Its::add_row(static_cast<const T*>(row), elements, reinterpret_cast<typename R::Total&>(total));
    }
    static void add_columns(const Piece& piece, AnyTotal* totals) { Its::add_columns(piece, totals); }
};

#ifdef __x86_64__
template <class R, class T>
struct Avx2 {
    using Its = Work<R, T, 32>;
    GPUMAT_AVX2 static void add_row(const void* row, std::int64_t elements, AnyTotal& total) {
        Its::add_row(static_cast<const T*>(row), elements, reinterpret_cast<typename R::Total&>(total));
    }
    GPUMAT_AVX2 static void add_columns(const Piece& piece, AnyTotal* totals) {
        Its::add_columns(piece, totals);
    }
};

template <class R, class T>
struct Avx512 {
    using Its = Work<R, T, 64>;
    GPUMAT_AVX512 static void add_row(const void* row, std::int64_t elements, AnyTotal& total) {
        Its::add_row(static_cast<const T*>(row), elements, reinterpret_cast<typename R::Total&>(total));
    }
    GPUMAT_AVX512 static void add_columns(const Piece& piece, AnyTotal* totals) {
        Its::add_columns(piece, totals);
    }
};
#endif

/// The total of reduction R, of what carried it.
template <class R, class Total>
typename R::Total total_of(const AnyTotal& carried) {
    typename R::Total total;
    narrow(reinterpret_cast<const Total&>(carried), total);
    return total;
}

/// The pieces of reduction R, which `Width` carries along.
template <class R, class Width>
Pieces pieces_in(bool unfinished) {
    using Total = typename Width::Its::Total;
    Pieces pieces = {.most_elements = kRuns * Width::Its::kLanes * kSteps,
                     .most_rows = kSteps,
                     .start = [](AnyTotal& total) { new (&total) Total; },
                     .add_row = Width::add_row,
                     .add_columns = Width::add_columns,
                     .merge =
                         [](AnyTotal& into, const AnyTotal& other) {
                             reinterpret_cast<Total&>(into).take(reinterpret_cast<const Total&>(other));
                         },
                     .finish =
                         [](const AnyTotal& total, std::int64_t elements, void* result) {
                             *static_cast<typename R::Result*>(result) =
                                 R::finish(total_of<R, Total>(total), elements);
                         },
                     .result_bytes = sizeof(typename R::Result)};
    if (unfinished) {
        pieces.finish = [](const AnyTotal& total, std::int64_t, void* result) {
            *static_cast<typename R::Total*>(result) = total_of<R, Total>(total);
        };
        pieces.result_bytes = sizeof(typename R::Total);
    }
    return pieces;
}

}  // namespace

Pieces pieces_of(const Problem& problem, VectorWidth width) {
    const auto carry = [&]<class R, class T>(R, TypeTag<T>) {
        using Carried = typename CarriedBy<R>::Type;
#ifdef __x86_64__
        if (width == VectorWidth::avx512) return pieces_in<R, Avx512<Carried, T>>(problem.unfinished);
        if (width == VectorWidth::avx2) return pieces_in<R, Avx2<Carried, T>>(problem.unfinished);
#else
        static_cast<void>(width);
#endif
        return pieces_in<R, Plain<Carried, T>>(problem.unfinished);
    };
    return visit_reducer(problem, [&]<class R, class T>(R reducer, TypeTag<T> tag) {
        if constexpr (std::is_integral_v<T> && std::is_same_v<R, Reducer<Reduction::nan_count, T>>) {
            // Nothing is looked at: no integer is NaN.
            return carry(Reducer<Reduction::nan_count, std::int8_t>{}, TypeTag<std::int8_t>{});
        } else {
            return carry(reducer, tag);
        }
    });
}

}  // namespace gpumat::reduce::cpu
