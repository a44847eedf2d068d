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
    std::int64_t ldd;  ///< elements between the rows of D
    std::int64_t ldc;

    Arguments(const Problem& p, const Operands& operands)
        : m(p.m),
          n(p.n),
          k(p.k),
          a{operands.a.as<T>(), p.transpose_a ? 1 : operands.a.pitch, p.transpose_a ? operands.a.pitch : 1},
          b{operands.b.as<T>(), p.transpose_b ? 1 : operands.b.pitch, p.transpose_b ? operands.b.pitch : 1},
          alpha(scalar_as<Sum<T>>(p.alpha)),
          beta(scalar_as<Sum<T>>(p.beta)),
          d(p.beta.is_zero(p.type) ? nullptr : operands.d.as<T>()),
          c(operands.c.as<T>()),
          ldd(operands.d.pitch),
          ldc(operands.c.pitch) {}

    /// B by its columns, as A is by its rows.
    [[nodiscard]] Strided<T> b_by_column() const { return {b.data, b.col, b.row}; }

    /// α·sum + β·D(i, j).
    [[nodiscard]] __device__ T result(std::int64_t i, std::int64_t j, Sum<T> sum) const {
        Sum<T> result = multiply_add(alpha, sum, Sum<T>{});
        if (d != nullptr) result = multiply_add(beta, to_sum(d[i * ldd + j]), result);
        return from_sum<T>(result);
    }

    /// C(i, j) = α·sum + β·D(i, j).
    __device__ void finish(std::int64_t i, std::int64_t j, Sum<T> sum) const {
        c[i * ldc + j] = result(i, j, sum);
    }
};

}  // namespace gpumat::multiply::gpu
