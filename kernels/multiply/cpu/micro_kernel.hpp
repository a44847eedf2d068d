#pragma once

#include <algorithm>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/common/vector.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/outer_product.hpp"
#include "kernels/multiply/cpu/panel_packing.hpp"

// The loop over k of `outer-product`, written once for every type and width of vectors. All
// of it is inlined into the functions of a unit, and so compiled in that unit's instructions.
//
// An `Isa` has the bytes of a vector and what the compiler's vectors cannot say: the conversions of f16, and
// dot products of bytes. A `Tile` has the numbers that a panel holds, the vectors of sums, and a step of k.

namespace gpumat::multiply::cpu {

constexpr std::int64_t kAheadBytes = 1024;  ///< of a panel of A, from the second-level cache to the first
constexpr std::int64_t kCacheLine = 64;

// ---- Tiles: the vectors of sums, and what a step of k adds to them. ----

template <class Isa, class N>
using VectorOfIsa = Vector<N, Isa::kBytes / static_cast<int>(sizeof(N))>;

/// Real numbers: floating-point types, and integers, which wrap.
template <class Isa_, class T, int kRows_, int kVectors>
struct RealTile {
    using Isa = Isa_;
    using Element = T;
    using Number = Sum<T>;
    using A = Single<Isa, T>;
    using B = Single<Isa, T>;
    using FinishB = AsPacked;
    using V = VectorOfIsa<Isa, Number>;
    static constexpr int kRows = kRows_;
    static constexpr int kLanes = Isa::kBytes / sizeof(Number);
    static constexpr int kCols = kVectors * kLanes;
    static constexpr int kPlanes = 1;
    static constexpr int kDepth = kMostLines;
    using Sums = V[kRows][kVectors];

    static GPUMAT_INLINE void start(const std::byte* /*b*/, Sums& /*sums*/) {}

    static GPUMAT_INLINE void add(const Number* a, const Number* b, Sums& sums) {
        V line[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) std::memcpy(&line[v], b + v * kLanes, sizeof(V));
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) sums[i][v] += a[i] * line[v];
        }
    }
};

/// Complex numbers: vectors of real parts, then of imaginary parts, so that no product needs its parts moved.
template <class Isa_, class R, int kRows_, int kVectors>
struct ComplexTile {
    using Isa = Isa_;
    using Element = std::complex<R>;
    using Number = R;
    using A = Single<Isa, Element>;
    using B = Single<Isa, Element>;
    using V = VectorOfIsa<Isa, R>;
    static constexpr int kRows = kRows_;
    static constexpr int kLanes = Isa::kBytes / sizeof(R);
    static constexpr int kCols = kVectors * kLanes;
    static constexpr int kPlanes = 2;
    static constexpr int kDepth = kMostLines / 2;
    using FinishB = InPlanes<V, kLanes, kVectors>;
    using Sums = V[kRows][2 * kVectors];

    static GPUMAT_INLINE void start(const std::byte* /*b*/, Sums& /*sums*/) {}

    static GPUMAT_INLINE void add(const R* a, const R* b, Sums& sums) {
        V line[2 * kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < 2 * kVectors; ++v) std::memcpy(&line[v], b + v * kLanes, sizeof(V));
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
            for (int v = 0; v < 2 * kVectors; ++v) sums[i][v] += a[2 * i] * line[v];
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                sums[i][v] -= a[2 * i + 1] * line[kVectors + v];
                sums[i][kVectors + v] += a[2 * i + 1] * line[v];
            }
        }
    }
};

/// Bytes: each lane adds the products of kGroup steps of k, exactly.
template <class Isa_, class A_, class B_, template <int> class FinishB_, int kRows_, int kVectors>
struct ByteTile {
    using Isa = Isa_;
    using Element = std::int8_t;
    using Number = std::uint32_t;
    using A = A_;
    using B = B_;
    using V = VectorOfIsa<Isa, Number>;
    static constexpr int kRows = kRows_;
    static constexpr int kLanes = Isa::kBytes / sizeof(Number);
    static constexpr int kCols = kVectors * kLanes;
    static constexpr int kPlanes = 1;
    static constexpr int kDepth = kMostLines * A::kGroup;
    using FinishB = FinishB_<kCols>;
    using Sums = V[kRows][kVectors];

    static GPUMAT_INLINE void start(const std::byte* b, Sums& sums) {
        if constexpr (FinishB::kHead > 0) {
            for (int v = 0; v < kVectors; ++v) {
                std::memcpy(&sums[0][v], b + v * static_cast<int>(sizeof(V)), sizeof(V));
                for (int i = 1; i < kRows; ++i) sums[i][v] = sums[0][v];
            }
        }
    }

    static GPUMAT_INLINE void add(const Number* a, const Number* b, Sums& sums) {
        V line[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) std::memcpy(&line[v], b + v * kLanes, sizeof(V));
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) Isa::add_dot(a[i], line[v], sums[i][v]);
        }
    }
};

template <int>
using NoFinish = AsPacked;

// ---- What becomes of the sums. ----

/// Sums of a row as elements in memory. f16 and bf16 are rounded here, and nowhere before.
template <class Isa, class T, int kCols>
GPUMAT_INLINE void store_elements(const Sum<T>* sums, void* to) {
    if constexpr (std::is_same_v<T, Half>) {
        for (int j = 0; j < kCols; j += Isa::kBytes / sizeof(float))
            Isa::narrow(sums + j, static_cast<Half*>(to) + j);
    } else if constexpr (std::is_same_v<T, BFloat16>) {
        auto* out = static_cast<BFloat16*>(to);
        for (int j = 0; j < kCols; ++j) {
            const auto bits = std::bit_cast<std::uint32_t>(sums[j]);
            const std::uint32_t even = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
            const std::uint32_t nan = ((bits >> 16) & 0x8000U) | 0x7fc0U;
            out[j].bits = static_cast<std::uint16_t>((bits & 0x7fff'ffffU) > 0x7f80'0000U ? nan : even);
        }
    } else {
        std::memcpy(to, sums, kCols * sizeof(Sum<T>));
    }
}

/// One whole row of a tile: its sums, to which those before are added, and which are scaled in the end.
template <class Tile>
GPUMAT_INLINE void store_row(const typename Tile::Number* tile_row, const Target& t, const void* before,
                             const void* add, void* to) {
    using T = typename Tile::Element;
    using S = Sum<T>;
    constexpr int kCols = Tile::kCols;
    alignas(64) S row[kCols];
    if constexpr (Tile::kPlanes == 2) {
        for (int j = 0; j < kCols; j += Tile::kLanes) {
            typename Tile::V re;
            typename Tile::V im;
            std::memcpy(&re, tile_row + j, sizeof re);
            std::memcpy(&im, tile_row + kCols + j, sizeof im);
            store_pairs(re, im, row + j, std::make_integer_sequence<int, Tile::kLanes>{});
        }
    } else {
        std::memcpy(row, tile_row, sizeof row);
    }
    if (before != nullptr) {
        const auto* sums = static_cast<const S*>(before);
        for (int j = 0; j < kCols; ++j) row[j] += sums[j];
    }
    if (!t.last) {
        std::memcpy(to, static_cast<const void*>(row), sizeof row);
        return;
    }
    const S alpha = *static_cast<const S*>(t.alpha);
    for (int j = 0; j < kCols; ++j) row[j] = multiply_add(alpha, row[j], S{});
    if (add != nullptr) {
        const S beta = *static_cast<const S*>(t.beta);
        alignas(64) S added[kCols];
        Single<typename Tile::Isa, Result<T>>::convert(static_cast<const Result<T>*>(add), kCols, added);
        for (int j = 0; j < kCols; ++j) row[j] = multiply_add(beta, added[j], row[j]);
    }
    store_elements<typename Tile::Isa, T, kCols>(row, to);
}

template <class Tile>
GPUMAT_INLINE void store_tile(const typename Tile::Number* tile, const Target& t) {
    using S = Sum<typename Tile::Element>;
    using C = Result<typename Tile::Element>;
    constexpr int kCols = Tile::kCols;
    const std::size_t to_size = t.last ? sizeof(C) : sizeof(S);
    for (std::int64_t i = 0; i < t.rows; ++i) {
        const auto* sums = tile + i * Tile::kPlanes * kCols;
        auto* to = static_cast<std::byte*>(t.to) + static_cast<std::size_t>(i * t.ld) * to_size;
        const auto* before =
            t.before == nullptr ? nullptr : static_cast<const S*>(t.before) + i * t.before_ld;
        const auto* add = t.add == nullptr ? nullptr : static_cast<const C*>(t.add) + i * t.add_ld;
        if (t.cols == kCols) {
            store_row<Tile>(sums, t, before, add, to);
            continue;
        }
        // Through whole rows beside the matrices.
        S some_before[kCols] = {};
        C some_add[kCols] = {};
        alignas(64) S some[kCols];
        const auto cols = static_cast<std::size_t>(t.cols);
        if (before != nullptr) std::memcpy(static_cast<void*>(some_before), before, cols * sizeof(S));
        if (add != nullptr) std::memcpy(static_cast<void*>(some_add), add, cols * sizeof(C));
        store_row<Tile>(sums, t, before == nullptr ? nullptr : some_before,
                        add == nullptr ? nullptr : some_add, some);
        std::memcpy(to, static_cast<const void*>(some), cols * to_size);
    }
}

// ---- The loop over k. ----

/// Prefetches the part of A that is read kAheadBytes later, and, to the second-level cache, a line of B.
template <class Tile>
GPUMAT_INLINE void prefetch_panels(const std::byte* a, const std::byte* next, std::int64_t k) {
    constexpr std::int64_t kLine = Tile::kRows * sizeof(typename Tile::A::Packed);
    for (std::int64_t i = 0; i < kLine; i += kCacheLine) __builtin_prefetch(a + kAheadBytes + i);
    __builtin_prefetch(next + k * kCacheLine, 0, 2);
}

/// Prefetches a row of the tile that is about to be written.
template <class Tile>
GPUMAT_INLINE void prefetch_row(const Target& t, std::int64_t i) {
    constexpr std::int64_t kSize = sizeof(Result<typename Tile::Element>);
    constexpr std::int64_t kBytes = Tile::kCols * kSize;
    const auto* row = static_cast<const std::byte*>(t.to) + i * t.ld * kSize;
    for (std::int64_t j = 0; j < kBytes; j += kCacheLine) __builtin_prefetch(row + j, 1);
    __builtin_prefetch(row + kBytes - 1, 1);  // rows may begin anywhere in a line
}

template <class Tile>
GPUMAT_INLINE void multiply_tile(std::int64_t lines, const std::byte* a, const std::byte* b,
                                 const Target& target) {
    using Number = typename Tile::Number;
    constexpr std::int64_t kALine = Tile::kRows * sizeof(typename Tile::A::Packed);
    constexpr std::int64_t kBLine = Tile::kCols * sizeof(typename Tile::B::Packed);
    typename Tile::Sums sums = {};
    Tile::start(b, sums);
    b += Tile::FinishB::kHead;
    const auto step = [&](std::int64_t k) __attribute__((always_inline)) {
        prefetch_panels<Tile>(a + k * kALine, target.next, k);
        Tile::add(reinterpret_cast<const Number*>(a + k * kALine),
                  reinterpret_cast<const Number*>(b + k * kBLine), sums);
    };
    // A row of C a step: all at once would fill the buffers that loads of A and B wait for as well.
    const std::int64_t ahead = std::min(lines, target.rows);
    for (std::int64_t k = 0; k < ahead; ++k) {
        prefetch_row<Tile>(target, k);
        step(k);
    }
    for (std::int64_t k = ahead; k < lines; ++k) step(k);
    alignas(64) Number tile[sizeof sums / sizeof(Number)];
    std::memcpy(tile, sums, sizeof tile);
    store_tile<Tile>(tile, target);
}

/// The kernel of a tile, whose functions a unit has compiled.
template <class Tile>
constexpr Kernel kernel_of(void (*pack_a)(const PackSource&, std::byte*),
                           void (*pack_b)(const PackSource&, std::byte*),
                           void (*multiply)(std::int64_t, const std::byte*, const std::byte*,
                                            const Target&)) {
    return {.rows = Tile::kRows,
            .cols = Tile::kCols,
            .group = Tile::A::kGroup,
            .depth = Tile::kDepth,
            .a_line = Tile::kRows * sizeof(typename Tile::A::Packed),
            .b_line = Tile::kCols * sizeof(typename Tile::B::Packed),
            .b_head = Tile::FinishB::kHead,
            .sum_size = sizeof(Sum<typename Tile::Element>),
            .pack_a = pack_a,
            .pack_b = pack_b,
            .multiply = multiply};
}

/// Bytes in pairs of 16 bits, and in groups of four of which those of A are offset by 128.
template <class Isa, int kRows, int kVectors>
using PairTile = ByteTile<Isa, Bytes<2, 0>, Bytes<2, 0>, NoFinish, kRows, kVectors>;
template <class Isa, int kRows, int kVectors>
using QuadTile = ByteTile<Isa, Bytes<4, 0x8080'8080U>, Bytes<4, 0>, WithoutOffset, kRows, kVectors>;

}  // namespace gpumat::multiply::cpu
