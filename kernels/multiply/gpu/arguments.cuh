#pragma once

#include "kernels/level.hpp"
#include "kernels/multiply/gpu/arithmetic.cuh"

namespace gpumat::multiply::gpu {

/// A matrix to read: element (i, j) is at i·row + j·col. Transposition is nothing but other steps.
template <class T>
struct Strided {
    const T* data;
    std::int64_t row;
    std::int64_t col;

    __device__ const T* at(std::int64_t i, std::int64_t j) const { return data + i * row + j * col; }
};

/// What every multiply kernel takes, by value: C = α·A·B + β·D with A m×k and B k×n after transposition,
/// C and D m×n and row-major.
template <class T>
struct Arguments {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
    Strided<T> a;
    Strided<T> b;
    Sum<T> alpha;
    Sum<T> beta;
    const T* d;  ///< null where β = 0
    T* c;

    Arguments(const Problem& p, const Operands& operands)
        : m(p.m),
          n(p.n),
          k(p.k),
          a{static_cast<const T*>(operands.a), p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1},
          b{static_cast<const T*>(operands.b), p.transpose_b ? 1 : p.n, p.transpose_b ? p.k : 1},
          alpha(scalar_as<Sum<T>>(p.alpha)),
          beta(scalar_as<Sum<T>>(p.beta)),
          d(p.beta.is_zero(p.type) ? nullptr : static_cast<const T*>(operands.d)),
          c(static_cast<T*>(operands.c)) {}

    /// B by its columns, as A is by its rows.
    [[nodiscard]] Strided<T> b_by_column() const { return {b.data, b.col, b.row}; }

    /// C(i, j) = α·sum + β·D(i, j), for the element at `offset` = i·n + j.
    __device__ void finish(std::int64_t offset, Sum<T> sum) const {
        Sum<T> result = multiply_add(alpha, sum, Sum<T>{});
        if (d != nullptr) result = multiply_add(beta, to_sum(d[offset]), result);
        c[offset] = from_sum<T>(result);
    }
};

}  // namespace gpumat::multiply::gpu
