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
        std::int64_t products = d_.pointers == nullptr ? 0 : d_.pointers[i + 1] - d_.pointers[i];
        if (a_.pointers == nullptr) return products;
        for (std::int64_t at = a_.pointers[i]; at < a_.pointers[i + 1]; ++at) {
            if (at + kPointersAhead < a_.entries)
                __builtin_prefetch(b_.pointers + a_columns_[at + kPointersAhead]);
            const std::int64_t k = a_columns_[at];
            products += b_.pointers[k + 1] - b_.pointers[k];
        }
        return products;
    }

    /// Entries of a row of B with the factor that multiplies them, or of D, whose values are no products.
    struct Line {
        const Columns<kShort>& columns;
        const T* values;  ///< null of D
        Sum<T> factor;
        std::int64_t first;
        std::int64_t last;

        [[nodiscard]] Sum<T> added_to(Sum<T> sum, std::int64_t at) const {
            return values == nullptr ? sum : multiply_add(factor, static_cast<Sum<T>>(values[at]), sum);
        }
    };

    /// Calls `visit(line)` for the rows of B that row i of A meets, in their order, and for that of D. Those
    /// of the next entries of A are prefetched, with their values where these are read.
    template <bool kValues, class Visit>
    void for_each_line(std::int64_t i, const Visit& visit) const {
        for (std::int64_t at = a_.pointers == nullptr ? 0 : a_.pointers[i];
             a_.pointers != nullptr && at < a_.pointers[i + 1]; ++at) {
            if (at + kPointersAhead < a_.entries) {
                __builtin_prefetch(b_.pointers + a_columns_[at + kPointersAhead]);
                const std::int64_t soon = b_.pointers[a_columns_[at + kLinesAhead]];
                b_columns_.prefetch(soon);
                if (kValues) __builtin_prefetch(b_.as<T>() + soon);
            }
            const std::int64_t k = a_columns_[at];
            visit(Line{b_columns_, b_.as<T>(), static_cast<Sum<T>>(a_.as<T>()[at]), b_.pointers[k],
                       b_.pointers[k + 1]});
        }
        if (d_.pointers != nullptr) visit(Line{d_columns_, nullptr, {}, d_.pointers[i], d_.pointers[i + 1]});
    }

    /// Calls `visit(column)` for each product and entry of D.
    template <class Visit>
    void for_each_column(std::int64_t i, const Visit& visit) const {
        for_each_line<false>(i, [&](const Line& line) {
            for (std::int64_t at = line.first; at < line.last; ++at) visit(line.columns[at]);
        });
    }

    /// Calls `sum_of(column)` for each of them, and adds the products to what that refers to.
    template <class SumOf>
    void add_all(std::int64_t i, const SumOf& sum_of) const {
        for_each_line<true>(i, [&](const Line& line) {
            for (std::int64_t at = line.first; at < line.last; ++at) {
                Sum<T>& sum = sum_of(line.columns[at]);
                sum = line.added_to(sum, at);
            }
        });
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
    // Entries of A from one whose row of B is multiplied to one whose row is prefetched, and its pointer.
    static constexpr std::int64_t kLinesAhead = 8;
    static constexpr std::int64_t kPointersAhead = 16;

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
