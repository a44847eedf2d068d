#pragma once

#include <algorithm>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/common/vector.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/outer_product.hpp"

// The packing and the loop over k of `outer-product`, written once for every type and width of vectors. All
// of it is inlined into the functions of a unit, and so compiled in that unit's instructions.
//
// An `Isa` has the bytes of a vector and what the compiler's vectors cannot say: the conversions of f16, and
// dot products of bytes. A `Tile` has the numbers that a panel holds, the vectors of sums, and a step of k.

namespace gpumat::multiply::cpu {

constexpr int kMostLines = 384;             ///< of a panel
constexpr std::int64_t kAheadBytes = 1024;  ///< of a panel of A, from the second-level cache to the first
constexpr std::int64_t kCacheLine = 64;

// ---- Numbers: what a panel holds of `kGroup` steps of k of an element's row or column. ----

/// The element itself, or its value in the type that sums have.
template <class Isa, class T>
struct Single {
    using Element = T;
    using Packed = Sum<T>;
    static constexpr int kGroup = 1;
    static constexpr bool kSame = sizeof(T) == sizeof(Packed);

    static GPUMAT_INLINE void convert(const T* from, std::int64_t count, Packed* to) {
        if constexpr (kSame) {
            // Without any there may be no memory to copy from.
            if (count > 0)
                std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(count) * sizeof(T));
        } else if constexpr (std::is_same_v<T, Half>) {
            constexpr int kLanes = Isa::kBytes / sizeof(float);
            std::int64_t i = 0;
            for (; i + kLanes <= count; i += kLanes) Isa::widen(from + i, to + i);
            if (i == count) return;
            Half some[kLanes] = {};
            float wide[kLanes];
            std::memcpy(static_cast<void*>(some), from + i, static_cast<std::size_t>(count - i) * sizeof(T));
            Isa::widen(some, wide);
            std::memcpy(to + i, wide, static_cast<std::size_t>(count - i) * sizeof(float));
        } else {
            for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Packed>(from[i]);
        }
    }
    /// `count` steps of k that are neighbours.
    static GPUMAT_INLINE void row(const T* from, std::int64_t count, Packed* to) { convert(from, count, to); }
    /// `width` neighbours of one step of k.
    static GPUMAT_INLINE void line(const T* from, std::int64_t /*ld*/, std::int64_t /*steps*/,
                                   std::int64_t width, Packed* to) {
        convert(from, width, to);
    }
};

/// Bytes in groups of `kGroup_` steps of k, each `kBits` wide, whose products are summed up at once.
template <int kGroup_, std::uint32_t kOffset>
struct Bytes {
    using Element = std::int8_t;
    using Packed = std::uint32_t;
    static constexpr int kGroup = kGroup_;
    static constexpr bool kSame = false;
    static constexpr int kBits = 32 / kGroup;
    static constexpr std::uint32_t kMask = kBits == 8 ? 0xffU : 0xffffU;

    static GPUMAT_INLINE Packed part(std::int8_t value, int place) {
        return (static_cast<std::uint32_t>(value) & kMask) << (place * kBits);
    }
    static GPUMAT_INLINE void row(const std::int8_t* from, std::int64_t count, Packed* to) {
        const std::int64_t whole = count / kGroup;
        for (std::int64_t g = 0; g < whole; ++g) {
            Packed value = 0;
#pragma GCC unroll 4
            for (int r = 0; r < kGroup; ++r) value |= part(from[g * kGroup + r], r);
            to[g] = value ^ kOffset;
        }
        if (whole * kGroup == count) return;
        Packed value = 0;
        for (int r = 0; r < count - whole * kGroup; ++r) value |= part(from[whole * kGroup + r], r);
        to[whole] = value ^ kOffset;
    }
    static GPUMAT_INLINE void line(const std::int8_t* from, std::int64_t ld, std::int64_t steps,
                                   std::int64_t width, Packed* to) {
        if (steps >= kGroup) {
            for (std::int64_t i = 0; i < width; ++i) {
                Packed value = 0;
#pragma GCC unroll 4
                for (int r = 0; r < kGroup; ++r) value |= part(from[r * ld + i], r);
                to[i] = value ^ kOffset;
            }
            return;
        }
        for (std::int64_t i = 0; i < width; ++i) {
            Packed value = 0;
            for (int r = 0; r < steps; ++r) value |= part(from[r * ld + i], r);
            to[i] = value ^ kOffset;
        }
    }
};

// ---- Packing. A line of a panel holds `kWidth` numbers; those beyond the source's width are 0. ----

/// 16 bytes, what every processor of the platform has, as numbers of so many bytes.
template <std::size_t kSize>
using Lane = std::conditional_t<kSize == 4, Vector<std::uint32_t, 4>, Vector<std::uint64_t, 2>>;

/// Transposes 16 / size rows of 16 bytes; rows of `from` are ld apart, rows of `to` kWidth.
template <int kWidth, class N>
GPUMAT_INLINE void transpose_lanes(const N* from, std::int64_t ld, N* to) {
    using L = Lane<sizeof(N)>;
    if constexpr (sizeof(N) == 16) {
        std::memcpy(static_cast<void*>(to), from, sizeof(N));
    } else if constexpr (sizeof(N) == 8) {
        L a;
        L b;
        std::memcpy(&a, from, sizeof a);
        std::memcpy(&b, from + ld, sizeof b);
        const L low = __builtin_shufflevector(a, b, 0, 2);
        const L high = __builtin_shufflevector(a, b, 1, 3);
        std::memcpy(static_cast<void*>(to), &low, sizeof low);
        std::memcpy(static_cast<void*>(to + kWidth), &high, sizeof high);
    } else {
        L a;
        L b;
        L c;
        L d;
        std::memcpy(&a, from, sizeof a);
        std::memcpy(&b, from + ld, sizeof b);
        std::memcpy(&c, from + 2 * ld, sizeof c);
        std::memcpy(&d, from + 3 * ld, sizeof d);
        const L ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5);
        const L ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
        const L bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5);
        const L bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
        const L first = __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5);
        const L second = __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7);
        const L third = __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5);
        const L fourth = __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7);
        std::memcpy(to, &first, sizeof first);
        std::memcpy(to + kWidth, &second, sizeof second);
        std::memcpy(to + 2 * kWidth, &third, sizeof third);
        std::memcpy(to + 3 * kWidth, &fourth, sizeof fourth);
    }
}

/// One panel from storage in which the elements of one k are neighbours.
template <class Numbers, int kWidth>
GPUMAT_INLINE void pack_along(const typename Numbers::Element* from, std::int64_t ld, std::int64_t width,
                              std::int64_t depth, typename Numbers::Packed* to) {
    for (std::int64_t k = 0; k < depth; k += Numbers::kGroup, to += kWidth) {
        if (width == kWidth) {
            Numbers::line(from + k * ld, ld, depth - k, kWidth, to);
        } else {
            Numbers::line(from + k * ld, ld, depth - k, width, to);
            std::fill(to + width, to + kWidth, typename Numbers::Packed{});
        }
    }
}

/// One panel from storage in which the elements of one k are `ld` apart, and k + 1 follows k.
template <class Numbers, int kWidth>
GPUMAT_INLINE void pack_across(const typename Numbers::Element* from, std::int64_t ld, std::int64_t width,
                               std::int64_t depth, typename Numbers::Packed* to) {
    using N = typename Numbers::Packed;
    constexpr int kLanes = 16 / sizeof(N);
    static_assert(kWidth % kLanes == 0, "a panel is whole lanes wide");
    const std::int64_t lines = (depth + Numbers::kGroup - 1) / Numbers::kGroup;
    const std::int64_t whole = lines / kLanes * kLanes;
    N staged[kLanes][kMostLines];
    for (std::int64_t i = 0; i < kWidth; i += kLanes) {
        const N* rows = &staged[0][0];
        std::int64_t row_ld = kMostLines;
        bool as_stored = false;
        if constexpr (Numbers::kSame) {
            if (i + kLanes <= width) {
                rows = reinterpret_cast<const N*>(from + i * ld);
                row_ld = ld;
                as_stored = true;
            }
        }
        if (!as_stored) {
            for (std::int64_t lane = 0; lane < kLanes; ++lane) {
                if (i + lane < width) {
                    Numbers::row(from + (i + lane) * ld, depth, staged[lane]);
                } else {
                    std::fill(staged[lane], staged[lane] + lines, N{});
                }
            }
        }
        std::int64_t k = 0;
        for (; k < whole; k += kLanes) transpose_lanes<kWidth>(rows + k, row_ld, to + k * kWidth + i);
        for (; k < lines; ++k) {
            for (std::int64_t lane = 0; lane < kLanes; ++lane)
                to[k * kWidth + i + lane] = rows[lane * row_ld + k];
        }
    }
}

/// The panels of one side. `Finish` has the bytes of a panel's head, and sees each panel when it is full.
template <class Numbers, int kWidth, class Finish>
GPUMAT_INLINE void pack_panels(const PackSource& source, std::byte* to) {
    using N = typename Numbers::Packed;
    const auto* from = static_cast<const typename Numbers::Element*>(source.data);
    const std::int64_t lines = (source.depth + Numbers::kGroup - 1) / Numbers::kGroup;
    for (std::int64_t i = 0; i < source.width; i += kWidth) {
        const std::int64_t width = std::min<std::int64_t>(kWidth, source.width - i);
        auto* panel = reinterpret_cast<N*>(to + Finish::kHead);
        if (source.across) {
            pack_across<Numbers, kWidth>(from + i * source.ld, source.ld, width, source.depth, panel);
        } else {
            pack_along<Numbers, kWidth>(from + i, source.ld, width, source.depth, panel);
        }
        Finish::panel(to, lines);
        to += Finish::kHead + lines * kWidth * static_cast<std::int64_t>(sizeof(N));
    }
}

/// Leaves a panel as it is.
struct AsPacked {
    static constexpr std::int64_t kHead = 0;
    static GPUMAT_INLINE void panel(std::byte* /*panel*/, std::int64_t /*lines*/) {}
};

template <int... kIndices>
using Indices = std::integer_sequence<int, kIndices...>;

/// So many parts of complex numbers, real and imaginary ones alternating, from two vectors of each.
template <class V, int... kIndices>
GPUMAT_INLINE void store_pairs(const V& re, const V& im, void* to, Indices<kIndices...>) {
    constexpr int kLanes = sizeof...(kIndices);
    const V low = __builtin_shufflevector(re, im, (kIndices / 2 + kIndices % 2 * kLanes)...);
    const V high = __builtin_shufflevector(re, im, (kLanes / 2 + kIndices / 2 + kIndices % 2 * kLanes)...);
    std::memcpy(to, &low, sizeof low);
    std::memcpy(static_cast<std::byte*>(to) + sizeof low, &high, sizeof high);
}
template <class V, int... kIndices>
GPUMAT_INLINE void load_pairs(const void* from, V& re, V& im, Indices<kIndices...>) {
    V low;
    V high;
    std::memcpy(&low, from, sizeof low);
    std::memcpy(&high, static_cast<const std::byte*>(from) + sizeof low, sizeof high);
    re = __builtin_shufflevector(low, high, (2 * kIndices)...);
    im = __builtin_shufflevector(low, high, (2 * kIndices + 1)...);
}

/// Makes of each line of complex numbers a line of real parts and one of imaginary parts.
template <class V, int kLanes, int kVectors>
struct InPlanes {
    static constexpr std::int64_t kHead = 0;
    static GPUMAT_INLINE void panel(std::byte* panel, std::int64_t lines) {
        constexpr auto kSize = static_cast<std::int64_t>(sizeof(V));
        for (std::int64_t k = 0; k < lines; ++k, panel += 2 * kVectors * kSize) {
            V planes[2 * kVectors];
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                load_pairs(panel + 2 * v * kSize, planes[v], planes[kVectors + v],
                           std::make_integer_sequence<int, kLanes>{});
            }
            std::memcpy(panel, planes, sizeof planes);
        }
    }
};

/// Puts before a panel of bytes what the products with A + 128 have too much: −128 · Σ of each column.
template <int kWidth>
struct WithoutOffset {
    static constexpr std::int64_t kHead = kWidth * sizeof(std::uint32_t);
    static GPUMAT_INLINE void panel(std::byte* panel, std::int64_t lines) {
        std::uint32_t sums[kWidth] = {};
        for (std::int64_t k = 0; k < lines; ++k) {
            std::uint32_t line[kWidth];
            std::memcpy(line, panel + kHead + k * kHead, sizeof line);
            for (int j = 0; j < kWidth; ++j) {
                const auto word = static_cast<std::int32_t>(line[j]);
                const std::int32_t sum =
                    (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
                sums[j] -= 128U * static_cast<std::uint32_t>(sum);
            }
        }
        std::memcpy(panel, sums, sizeof sums);
    }
};

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
