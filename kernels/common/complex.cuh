#pragma once

#include "core/numbers/type.hpp"

namespace gpumat {

/// A complex number in device code, laid out as std::complex<R>: the real part first.
template <class R>
struct alignas(2 * sizeof(R)) Complex {
    R re;
    R im;
};

template <class R>
inline constexpr bool kIsComplex<Complex<R>> = true;

/// The type of the parts of a complex number, or the type of a real one.
template <class T>
struct RealOfType {
    using type = T;
};
template <class R>
struct RealOfType<Complex<R>> {
    using type = R;
};
template <class T>
using RealOf = typename RealOfType<T>::type;

template <class R>
__device__ inline Complex<R> operator+(Complex<R> x, Complex<R> y) {
    return {x.re + y.re, x.im + y.im};
}

}  // namespace gpumat
