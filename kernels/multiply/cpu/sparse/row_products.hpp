#pragma once

#include <cstdint>

#include "kernels/multiply/cpu/sparse/columns.hpp"

namespace gpumat::multiply::cpu::sparse {

/// The products of a row of op(A)·op(B), both sparse, in the order of k, and what becomes of their sums in a
/// sparse C = α·op(A)·op(B) + β·D. C has an entry wherever there is a product or an entry of D, zero or not.
/// Operands are plain.
template <bool kShort, class T>
class RowProducts {
  public:
    RowProducts(const Problem& p, const Operands& operands)
        : a_(p.k == 0 ? Operand{} : operands.a),
          b_(operands.b),
          d_(p.beta.is_zero(p.type) ? Operand{} : operands.d),
          a_columns_(operands.a),
          b_columns_(operands.b),
          d_columns_(operands.d),
          alpha_(scalar_as<T>(p.alpha)),
          beta_(scalar_as<T>(p.beta)) {}

    /// How many there are, and entries of D.
    [[nodiscard]] std::int64_t count(std::int64_t i) const {
        std::int64_t products = 0;
        for_each_line(i,
                      [&](std::int64_t, std::int64_t k) { products += b_.pointers[k + 1] - b_.pointers[k]; });
        return products + (d_.pointers == nullptr ? 0 : d_.pointers[i + 1] - d_.pointers[i]);
    }

    /// Calls `visit(column)` for each of them.
    template <class Visit>
    void for_each_column(std::int64_t i, const Visit& visit) const {
        for_each_line(i, [&](std::int64_t, std::int64_t k) {
            for (std::int64_t at = b_.pointers[k]; at < b_.pointers[k + 1]; ++at) visit(b_columns_[at]);
        });
        if (d_.pointers == nullptr) return;
        for (std::int64_t at = d_.pointers[i]; at < d_.pointers[i + 1]; ++at) visit(d_columns_[at]);
    }

    /// Calls `add(column, factor, value)` for each product, and for each entry of D with two zeros.
    template <class Add>
    void for_each(std::int64_t i, const Add& add) const {
        for_each_line(i, [&](std::int64_t a_at, std::int64_t k) {
            const auto factor = static_cast<Sum<T>>(a_.as<T>()[a_at]);
            for (std::int64_t at = b_.pointers[k]; at < b_.pointers[k + 1]; ++at)
                add(b_columns_[at], factor, static_cast<Sum<T>>(b_.as<T>()[at]));
        });
        if (d_.pointers == nullptr) return;
        for (std::int64_t at = d_.pointers[i]; at < d_.pointers[i + 1]; ++at)
            add(d_columns_[at], Sum<T>{}, Sum<T>{});
    }

    /// Writes entries of row i of C, whose columns come in their order.
    class Writer {
      public:
        Writer(const RowProducts& of, const MutableOperand& c, std::int64_t i)
            : of_(of),
              columns_(c),
              values_(c.as<Result<T>>()),
              to_(c.pointers[i]),
              at_d_(of.d_.pointers == nullptr ? 0 : of.d_.pointers[i]),
              end_d_(of.d_.pointers == nullptr ? 0 : of.d_.pointers[i + 1]) {}

        void put(std::int64_t column, Sum<T> sum) {
            Sum<T> value = multiply_add(of_.alpha_, sum, Sum<T>{});
            if (at_d_ < end_d_ && of_.d_columns_[at_d_] == column)
                value = multiply_add(of_.beta_, static_cast<Sum<T>>(of_.d_.template as<Result<T>>()[at_d_++]),
                                     value);
            columns_.set(to_, column);
            values_[to_++] = static_cast<Result<T>>(value);
        }

      private:
        const RowProducts& of_;
        MutableColumns<kShort> columns_;
        Result<T>* values_;
        std::int64_t to_;
        std::int64_t at_d_;
        std::int64_t end_d_;
    };

  private:
    /// Calls `visit(at, k)` for each entry of row i of A, in column k.
    template <class Visit>
    void for_each_line(std::int64_t i, const Visit& visit) const {
        if (a_.pointers == nullptr) return;
        for (std::int64_t at = a_.pointers[i]; at < a_.pointers[i + 1]; ++at) visit(at, a_columns_[at]);
    }

    Operand a_;
    Operand b_;
    Operand d_;
    Columns<kShort> a_columns_;
    Columns<kShort> b_columns_;
    Columns<kShort> d_columns_;
    Sum<T> alpha_;
    Sum<T> beta_;
};

}  // namespace gpumat::multiply::cpu::sparse
