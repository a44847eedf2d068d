#pragma once

// Stored elements as numbers that are calculated with, on the CPU and on the GPU; a number may be a vector of
// numbers (GCC's vector extensions), a lane each.

#include <bit>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/numbers/type.hpp"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define GPUMAT_BOTH __host__ __device__ __forceinline__
#else
#define GPUMAT_BOTH __attribute__((always_inline)) inline
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors pass through functions that are inlined
#endif

namespace gpumat::reduce {

template <class T>
struct PartOf {
    using Type = T;
};
template <class P>
struct PartOf<std::complex<P>> {
    using Type = P;
};

/// A complex element.
template <class F>
struct Pair {
    F re;
    F im;
};

/// The unsigned integer of so many bytes.
template <std::size_t SIZE>
using BitsOf = std::conditional_t<
    SIZE == 8, std::uint64_t,
    std::conditional_t<SIZE == 4, std::uint32_t, std::conditional_t<SIZE == 2, std::uint16_t, std::uint8_t>>>;

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

/// The bits of the half that a float, made of one, came from.
GPUMAT_BOTH std::uint16_t half_bits(float number) {
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(number));
#else
    return Half(static_cast<double>(number)).bits;
#endif
}

/// What makes the least, the largest and the largest magnitude of elements the smallest of signed numbers:
/// the bits in `keep` stay, those in `flip` are turned. Both have an element's bits again and again.
struct Mirror {
    std::uint64_t keep = ~std::uint64_t{0};
    std::uint64_t flip = 0;

    template <class Part>
    GPUMAT_BOTH Part of(Part part) const {
        using Bits = BitsOf<sizeof(Part)>;
        const auto bits = std::bit_cast<Bits>(part);
        return std::bit_cast<Part>(
            static_cast<Bits>((bits & static_cast<Bits>(keep)) ^ static_cast<Bits>(flip)));
    }
};

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

}  // namespace gpumat::reduce
