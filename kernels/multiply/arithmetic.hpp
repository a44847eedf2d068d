#pragma once

#include <complex>
#include <type_traits>

#include "kernels/problem.hpp"

namespace gpumat::multiply {

/// The arithmetic of each element type on the host: `Sum` is what products are added up in.
/// Integers use their unsigned type, whose arithmetic wraps by definition.
template <class T>
struct SumType {
    using Type = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
};
template <>
struct SumType<std::int8_t> {
    using Type = std::uint32_t;
};
template <>
struct SumType<std::int32_t> {
    using Type = std::uint32_t;
};
template <>
struct SumType<std::int64_t> {
    using Type = std::uint64_t;
};

template <class T>
using Sum = typename SumType<T>::Type;

/// The type of C and D: that of A and B, but i32 for i8.
template <class T>
using Result = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, T>;

/// α or β in the type that sums have.
template <class T>
Sum<T> scalar_as(const Scalar& scalar) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<Sum<T>>(scalar.integer);
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
        return static_cast<Sum<T>>(scalar.value);
    } else {
        return static_cast<Sum<T>>(scalar.value.real());
    }
}

/// a·b + c without the special cases of complex infinities, which would cost a branch a product.
template <class S>
S multiply_add(S a, S b, S c) {
    return a * b + c;
}
template <class R>
std::complex<R> multiply_add(std::complex<R> a, std::complex<R> b, std::complex<R> c) {
    return {a.real() * b.real() - a.imag() * b.imag() + c.real(),
            a.real() * b.imag() + a.imag() * b.real() + c.imag()};
}

/// Calls `function` with the TypeTag of a type that multiply supports.
template <class Function>
void visit_multiply_type(Type type, Function&& function) {
    switch (type) {
        case Type::f16:
            return function(TypeTag<Half>{});
        case Type::bf16:
            return function(TypeTag<BFloat16>{});
        case Type::f32:
            return function(TypeTag<float>{});
        case Type::f64:
            return function(TypeTag<double>{});
        case Type::c64:
            return function(TypeTag<std::complex<float>>{});
        case Type::c128:
            return function(TypeTag<std::complex<double>>{});
        case Type::i8:
            return function(TypeTag<std::int8_t>{});
        case Type::i32:
            return function(TypeTag<std::int32_t>{});
        case Type::i64:
        case Type::u64:  // the same bits: products and sums are modulo 2^64
            return function(TypeTag<std::int64_t>{});
        default:
            __builtin_unreachable();  // the tables' type lists refuse every other type first
    }
}

/// What every level ends with: C(i, j) = α·sum + β·D(i, j); D is not touched where β is 0.
template <class T>
struct Epilogue {
    Sum<T> alpha;
    Sum<T> beta;
    const Result<T>* d;  ///< null where β = 0
    std::int64_t ldd;

    Epilogue(const Problem& problem, const Operands& operands)
        : alpha(scalar_as<T>(problem.alpha)),
          beta(scalar_as<T>(problem.beta)),
          d(problem.beta.is_zero(problem.type) ? nullptr : operands.d.as<Result<T>>()),
          ldd(operands.d.pitch) {}

    Result<T> operator()(Sum<T> sum, std::int64_t i, std::int64_t j) const {
        const Sum<T> scaled = multiply_add(alpha, sum, Sum<T>{});
        return static_cast<Result<T>>(
            d == nullptr ? scaled : multiply_add(beta, static_cast<Sum<T>>(d[i * ldd + j]), scaled));
    }
};

}  // namespace gpumat::multiply
