#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/common/vector.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/outer_product.hpp"

// How `outer-product` packs panels, written once for every type and width of vectors: see micro_kernel.hpp.

namespace gpumat::multiply::cpu {

constexpr int kMostLines = 384;  ///< of a panel

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

}  // namespace gpumat::multiply::cpu
