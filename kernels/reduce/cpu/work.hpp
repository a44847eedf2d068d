#pragma once

// Pieces of a matrix, reduced in vectors: written once, compiled for each width in a unit of its own
// (pieces_avx512.cpp …), whose instructions it takes on where it is inlined.

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/common/vector.hpp"
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/cpu/pieces.hpp"

namespace gpumat::reduce::cpu {

inline constexpr int kRuns = 4;  // that do not wait for each other
// The steps of each lane in the piece of a row; well under kLongestRun, for what is left over goes to the
// first run.
inline constexpr std::int64_t kSteps = kLongestRun / 2;
inline constexpr int kRowsAtOnce = 4;  // between a load and a store of the runs of columns

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

/// Neighbouring numbers of those bits, as what is calculated with.
template <class Number, class Part, int kLanes>
GPUMAT_INLINE Vector<Number, kLanes> numbers_of(const Vector<BitsOf<sizeof(Part)>, kLanes>& bits) {
    if constexpr (std::is_same_v<Part, Half>) {
        return __builtin_convertvector(widened<kLanes>(bits), Vector<Number, kLanes>);
    } else if constexpr (std::is_same_v<Part, BFloat16>) {
        const auto words = __builtin_convertvector(bits, Vector<std::uint32_t, kLanes>) << 16U;
        return __builtin_convertvector((Vector<float, kLanes>)words, Vector<Number, kLanes>);
    } else {
        return __builtin_convertvector((Vector<Part, kLanes>)bits, Vector<Number, kLanes>);
    }
}

template <class V, std::size_t... kLane>
GPUMAT_INLINE Pair<V> deinterleave(const V& low, const V& high, std::index_sequence<kLane...>) {
    return {__builtin_shufflevector(low, high, (2 * kLane)...),
            __builtin_shufflevector(low, high, (2 * kLane + 1)...)};
}

/// Everything for one accumulator, in vectors of kBytes.
template <class A, int kBytes>
struct Work {
    using T = typename A::Element;
    using Number = typename A::Number;
    using Total = typename A::Total;
    using Part = typename PartOf<T>::Type;
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(Number));
    using Run = typename A::template Run<Vector<Number, kLanes>, Vector<CountLane<Number>, kLanes>>;
    // NOLINTNEXTLINE(misc-redundant-expression): may be one type
    static_assert(sizeof(Total) <= sizeof(AnyTotal));
    static_assert(alignof(Total) <= alignof(AnyTotal));  // NOLINT(misc-redundant-expression)
    static_assert(sizeof(Run) == kLanes * sizeof(ScalarRun<A>), "a run of vectors is a run in each lane");

    using Bits = Vector<BitsOf<sizeof(Part)>, kLanes>;

    static GPUMAT_INLINE Vector<Number, kLanes> load(const Part* from, const Mirror& mirror) {
        Bits bits;
        std::memcpy(&bits, from, sizeof bits);
        if constexpr (kMirrored<A>) {
            using Mask = BitsOf<sizeof(Part)>;
            bits = (bits & static_cast<Mask>(mirror.keep)) ^ static_cast<Mask>(mirror.flip);
        }
        return numbers_of<Number, Part, kLanes>(bits);
    }

    static GPUMAT_INLINE auto load_elements(const T* from, const Mirror& mirror) {
        const auto* parts = reinterpret_cast<const Part*>(from);
        const auto low = load(parts, mirror);
        if constexpr (kIsComplex<T>) {
            return deinterleave(low, load(parts + kLanes, mirror), std::make_index_sequence<kLanes>());
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
            ScalarRun<A> scalar;
            std::memcpy(static_cast<void*>(&scalar), &of_lane, sizeof scalar);
            take(lane, scalar);
        }
    }

    static GPUMAT_INLINE void add_row(const void* elements_at, std::int64_t elements, const Mirror& mirror,
                                      AnyTotal& into) {
        const auto* row = static_cast<const T*>(elements_at);
        auto& total = reinterpret_cast<Total&>(into);
        Run runs[kRuns];
        std::int64_t i = 0;
        for (; i + kRuns * kLanes <= elements; i += kRuns * kLanes) {
#pragma GCC unroll 4
            for (int r = 0; r < kRuns; ++r) runs[r].add(load_elements(row + i + r * kLanes, mirror));
        }
        const int used = i > 0 ? kRuns : 1;
        for (; i + kLanes <= elements; i += kLanes) runs[0].add(load_elements(row + i, mirror));
        for (int r = 0; r < used && elements >= kLanes; ++r)
            for_lanes(runs[r], [&](int, const ScalarRun<A>& run) { total.take(run); });
        ScalarRun<A> rest;
        for (; i < elements; ++i) rest.add(element_at<A>(row + i, mirror));
        total.take(rest);
    }

    /// A run for each lane of each column, from and back to memory every few rows.
    static GPUMAT_INLINE void add_columns(const Piece& piece, const Mirror& mirror, AnyTotal* totals) {
        Run runs[kPieceBytes / sizeof(T) / kLanes];
        ScalarRun<A> rest[kLanes];
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
                        run.add(load_elements(row + r * piece.pitch + v * kLanes, mirror));
                } else {
                    for (std::int64_t r = 0; r < rows; ++r)
                        run.add(load_elements(row + r * piece.pitch + v * kLanes, mirror));
                }
                runs[v] = run;
            }
            for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t j = left; j < piece.cols; ++j)
                    rest[j - left].add(element_at<A>(row + r * piece.pitch + j, mirror));
            }
        }
        const auto take = [&](std::int64_t column, const ScalarRun<A>& run) {
            reinterpret_cast<Total*>(totals + column)->take(run);
        };
        for (std::int64_t v = 0; v < vectors; ++v)
            for_lanes(runs[v], [&](int lane, const ScalarRun<A>& run) { take(v * kLanes + lane, run); });
        for (std::int64_t j = left; j < piece.cols; ++j) take(j, rest[j - left]);
    }
};

/// What `Width`, a unit's functions around `Work`, does.
template <class Width>
Vectors vectors_in() {
    return {.most_elements = kRuns * Width::Its::kLanes * kSteps,
            .most_rows = kSteps,
            .add_row = Width::add_row,
            .add_columns = Width::add_columns};
}

}  // namespace gpumat::reduce::cpu
