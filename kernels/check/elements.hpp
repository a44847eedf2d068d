#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "core/numbers/type.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

/// An element as a complex double. Exact, but for 64-bit integers of more than 53 bits.
template <class T>
std::complex<double> as_complex(T value) {
    if constexpr (kIsComplex<T>) {
        return {static_cast<double>(value.real()), static_cast<double>(value.imag())};
    } else {
        return {static_cast<double>(value), 0.0};
    }
}

inline bool is_finite(std::complex<double> value) {
    return std::isfinite(value.real()) && std::isfinite(value.imag());
}

/// |value|, also where the squares pass the range of double.
inline double modulus(std::complex<double> value) {
    if (value.imag() == 0) return std::fabs(value.real());
    const double squares = value.real() * value.real() + value.imag() * value.imag();
    return squares > 0x1p-900 && squares < 0x1p1000 ? std::sqrt(squares) : std::abs(value);
}

/// A matrix seen through element steps, so that a transposed operand reads like a plain one.
template <class T>
struct Strided {
    const T* data;
    std::int64_t row_step;
    std::int64_t col_step;

    const T& operator()(std::int64_t i, std::int64_t j) const { return data[i * row_step + j * col_step]; }
};

/// Prefetches a part of a row. Parts of rows lie too far apart for the hardware to foresee them; and where
/// rows lie a power of two apart, a set of the cache holds no more than some of them.
template <class T>
[[gnu::always_inline]] inline void prefetch_row(const T* row, std::int64_t cols) {
    constexpr std::size_t kLine_bytes = 64;
    const auto* const bytes = reinterpret_cast<const char*>(row);
    for (std::size_t at = 0; at < static_cast<std::size_t>(cols) * sizeof(T); at += kLine_bytes)
        __builtin_prefetch(bytes + at);
}

/// op(A), m×k.
template <class T>
Strided<T> operand_a(const Problem& p, const Operands& operands) {
    const std::int64_t pitch = operands.a.pitch;
    return {operands.a.as<T>(), p.transpose_a ? 1 : pitch, p.transpose_a ? pitch : 1};
}

/// op(B), k×n.
template <class T>
Strided<T> operand_b(const Problem& p, const Operands& operands) {
    const std::int64_t pitch = operands.b.pitch;
    return {operands.b.as<T>(), p.transpose_b ? 1 : pitch, p.transpose_b ? pitch : 1};
}

/// Calls `function` with the TypeTag of what a product of elements of type T is stored in: T, but i32 where
/// the problem says so of i8.
template <class T, class Function>
void visit_result(const Problem& p, Function&& function) {
    if constexpr (std::is_same_v<T, std::int8_t>) {
        if (result_type(p) == Type::i32) return function(TypeTag<std::int32_t>{});
    }
    function(TypeTag<T>{});
}

/// D(i, j), or 0 where there is no D.
template <class T>
T element_of_d(const Operands& operands, std::int64_t i, std::int64_t j) {
    return operands.d.data == nullptr ? T{} : operands.d.as<T>()[i * operands.d.pitch + j];
}

}  // namespace gpumat
