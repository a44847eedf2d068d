#pragma once

#include <algorithm>
#include <cstdint>

#include "core/sparse/csr.hpp"
#include "kernels/multiply/arithmetic.hpp"

namespace gpumat::multiply::cpu::sparse {

/// The columns of compressed rows, to read: of 32 bits where all extents of the problem allow that, else of
/// what each matrix has.
template <bool kShort>
class Columns {
  public:
    explicit Columns(const Operand& matrix)
        : columns_(matrix.columns), short_(has_short_indices({matrix.rows, matrix.cols})) {}

    std::int64_t operator[](std::int64_t at) const {
        if (kShort || short_) return static_cast<const std::int32_t*>(columns_)[at];
        return static_cast<const std::int64_t*>(columns_)[at];
    }

    void prefetch(std::int64_t at) const {
        if (kShort || short_)
            __builtin_prefetch(static_cast<const std::int32_t*>(columns_) + at);
        else
            __builtin_prefetch(static_cast<const std::int64_t*>(columns_) + at);
    }

  private:
    const void* columns_;
    bool short_;
};

/// The same, to write.
template <bool kShort>
class MutableColumns {
  public:
    explicit MutableColumns(const MutableOperand& matrix)
        : columns_(matrix.columns), short_(has_short_indices({matrix.rows, matrix.cols})) {}

    void set(std::int64_t at, std::int64_t column) const {
        if (kShort || short_)
            static_cast<std::int32_t*>(columns_)[at] = static_cast<std::int32_t>(column);
        else
            static_cast<std::int64_t*>(columns_)[at] = column;
    }

  private:
    void* columns_;
    bool short_;
};

/// Calls `function.template operator()<kShort, T>()` with whether all indices are of 32 bits, and the type of
/// the elements.
template <class Function>
void visit_product(const Problem& p, Function&& function) {
    const bool is_short = std::max({p.m, p.n, p.k}) <= kMostShortIndices;
    visit_multiply_type(p.type, [&]<class T>(TypeTag<T>) {
        if (is_short)
            function.template operator()<true, T>();
        else
            function.template operator()<false, T>();
    });
}

}  // namespace gpumat::multiply::cpu::sparse
