#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/common/complex.cuh"
#include "kernels/problem.hpp"

namespace gpumat::multiply::gpu {

/// What products of elements of type T are added up in: float for the 16-bit floats, else T itself.
/// Integers are unsigned on the device, because unsigned arithmetic wraps by definition.
template <class T>
struct SumOf {
    using type = T;
};
template <>
struct SumOf<__half> {
    using type = float;
};
template <>
struct SumOf<__nv_bfloat16> {
    using type = float;
};
template <class T>
using Sum = typename SumOf<T>::type;

/// An element as a summand, and a finished sum rounded (once) to an element.
template <class T>
__device__ inline T to_sum(T value) {
    return value;
}
__device__ inline float to_sum(__half value) {
    return __half2float(value);
}
__device__ inline float to_sum(__nv_bfloat16 value) {
    return __bfloat162float(value);
}

template <class T>
__device__ inline T from_sum(Sum<T> sum) {
    return sum;
}
template <>
__device__ inline __half from_sum<__half>(float sum) {
    return __float2half_rn(sum);
}
template <>
__device__ inline __nv_bfloat16 from_sum<__nv_bfloat16>(float sum) {
    return __float2bfloat16_rn(sum);
}

/// a·b + c: one fused instruction for real numbers, four for complex ones.
template <class S>
__device__ inline S multiply_add(S a, S b, S c) {
    return a * b + c;
}
__device__ inline float multiply_add(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
__device__ inline double multiply_add(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
template <class R>
__device__ inline Complex<R> multiply_add(Complex<R> a, Complex<R> b, Complex<R> c) {
    return {multiply_add(-a.im, b.im, multiply_add(a.re, b.re, c.re)),
            multiply_add(a.re, b.im, multiply_add(a.im, b.re, c.im))};
}

/// The two halves of a·b + c, in this order: the products with the real part of b, then those with its
/// imaginary part. All of a real product is its first half.
template <class S>
__device__ inline S multiply_add_first(S a, S b, S c) {
    return multiply_add(a, b, c);
}
template <class R>
__device__ inline Complex<R> multiply_add_first(Complex<R> a, Complex<R> b, Complex<R> c) {
    return {multiply_add(a.re, b.re, c.re), multiply_add(a.im, b.re, c.im)};
}
template <class R>
__device__ inline Complex<R> multiply_add_second(Complex<R> a, Complex<R> b, Complex<R> c) {
    return {multiply_add(-a.im, b.im, c.re), multiply_add(a.re, b.im, c.im)};
}

/// α or β as a sum, on the host.
template <class S>
S scalar_as(const Scalar& scalar) {
    if constexpr (std::is_integral_v<S>) {
        return static_cast<S>(scalar.integer);
    } else if constexpr (std::is_same_v<S, Complex<float>>) {
        return {static_cast<float>(scalar.value.real()), static_cast<float>(scalar.value.imag())};
    } else if constexpr (std::is_same_v<S, Complex<double>>) {
        return {scalar.value.real(), scalar.value.imag()};
    } else {
        return static_cast<S>(scalar.value.real());
    }
}

/// Calls `function` with the TypeTag of the device type of each type that multiply supports.
template <class Function>
decltype(auto) visit_device_type(Type type, Function&& function) {
    switch (type) {
        case Type::f16:
            return function(TypeTag<__half>{});
        case Type::bf16:
            return function(TypeTag<__nv_bfloat16>{});
        case Type::f32:
            return function(TypeTag<float>{});
        case Type::f64:
            return function(TypeTag<double>{});
        case Type::c64:
            return function(TypeTag<Complex<float>>{});
        case Type::c128:
            return function(TypeTag<Complex<double>>{});
        case Type::i32:
            return function(TypeTag<std::uint32_t>{});
        case Type::i64:
        case Type::u64:
            return function(TypeTag<std::uint64_t>{});
        default:
            __builtin_unreachable();  // the table's type list refuses every other type first
    }
}

}  // namespace gpumat::multiply::gpu
