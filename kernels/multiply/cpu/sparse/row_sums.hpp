#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/multiply/cpu/sparse/columns.hpp"

namespace gpumat::multiply::cpu::sparse {

/// The sums of a row of op(A)·op(B), in the order of k, where one of them is sparse: each entry is multiplied
/// once, and nothing else is. Operands are plain.
template <bool kShort, class T>
class RowSums {
  public:
    RowSums(const Problem& p, const Operands& operands)
        : p_(p),
          a_(operands.a),
          b_(operands.b),
          columns_(a_.storage == Storage::csr ? a_ : b_),
          finish_(p, operands),
          c_(operands.c.as<Result<T>>()),
          ldc_(operands.c.pitch) {}

    /// Adds the products of entries [begin, end) of a sparse A to the sums of their row.
    void add(std::int64_t begin, std::int64_t end, Sum<T>* sums) const {
        const T* const values = a_.as<T>();
        for (std::int64_t at = begin; at < end; ++at) {
            const auto factor = static_cast<Sum<T>>(values[at]);
            const T* const line = b_.as<T>() + columns_[at] * b_.pitch;
            for (std::int64_t j = 0; j < p_.n; ++j)
                sums[j] = multiply_add(factor, static_cast<Sum<T>>(line[j]), sums[j]);
        }
    }

    /// Row i of C, through memory for n sums.
    void row(std::int64_t i, Sum<T>* sums) const {
        std::fill_n(sums, p_.n, Sum<T>{});
        if (p_.k == 0) {
        } else if (a_.storage == Storage::csr) {
            add(a_.pointers[i], a_.pointers[i + 1], sums);
        } else {
            scatter(i, sums);
        }
        finish(i, sums);
    }

    void finish(std::int64_t i, const Sum<T>* sums) const {
        for (std::int64_t j = 0; j < p_.n; ++j) c_[i * ldc_ + j] = finish_(sums[j], i, j);
    }

  private:
    /// Row i of a dense A times a sparse B.
    void scatter(std::int64_t i, Sum<T>* sums) const {
        const std::int64_t row = p_.transpose_a ? 1 : a_.pitch;
        const std::int64_t step = p_.transpose_a ? a_.pitch : 1;
        const T* const values = b_.as<T>();
        for (std::int64_t k = 0; k < p_.k; ++k) {
            const auto factor = static_cast<Sum<T>>(a_.as<T>()[i * row + k * step]);
            for (std::int64_t at = b_.pointers[k]; at < b_.pointers[k + 1]; ++at) {
                Sum<T>& sum = sums[columns_[at]];
                sum = multiply_add(factor, static_cast<Sum<T>>(values[at]), sum);
            }
        }
    }

    Problem p_;
    Operand a_;
    Operand b_;
    Columns<kShort> columns_;
    Epilogue<T> finish_;
    Result<T>* c_;
    std::int64_t ldc_;
};

}  // namespace gpumat::multiply::cpu::sparse
