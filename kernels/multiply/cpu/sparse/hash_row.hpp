#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/multiply/cpu/sparse/row_products.hpp"

namespace gpumat::multiply::cpu::sparse {

/// The sums of a row of C in a table by column, with open addresses: twice as many places as the row has
/// products, or as it could have entries.
template <bool kShort, class T>
class HashRow {
  public:
    HashRow(const RowProducts<kShort, T>& rows, std::int64_t n) : rows_(rows), n_(n) {}

    /// The entries of row i, which has so many products.
    std::int64_t count(std::int64_t i, std::int64_t products) {
        start(products);
        std::int64_t entries = 0;
        rows_.for_each_column(i, [&](std::int64_t column) {
            Index& key = keys_[place(column)];
            entries += key == kNone ? 1 : 0;
            key = static_cast<Index>(column);
        });
        return entries;
    }

    void fill(const MutableOperand& c, std::int64_t i, std::int64_t products) {
        start(products);
        sums_.resize(keys_.size());
        found_.clear();
        rows_.add_all(i, [&](std::int64_t column) -> Sum<T>& {
            const std::size_t at = place(column);
            if (keys_[at] == kNone) {
                keys_[at] = static_cast<Index>(column);
                sums_[at] = Sum<T>{};
                found_.push_back(static_cast<Index>(column));
            }
            return sums_[at];
        });
        std::sort(found_.begin(), found_.end());
        typename RowProducts<kShort, T>::Writer to(rows_, c, i);
        for (const Index column : found_) to.put(column, sums_[place(column)]);
    }

  private:
    using Index = std::conditional_t<kShort, std::int32_t, std::int64_t>;
    static constexpr Index kNone = -1;

    void start(std::int64_t products) {
        std::size_t size = 16;
        shift_ = 60;
        for (const auto most = static_cast<std::size_t>(std::min(products, n_)); size < 2 * most; size *= 2)
            --shift_;
        if (keys_.size() < size) keys_.resize(size);
        std::fill_n(keys_.begin(), size, kNone);
        mask_ = size - 1;
    }

    /// Where the column is, or is to be (Fibonacci hashing, Knuth 1973).
    [[nodiscard]] std::size_t place(std::int64_t column) const {
        std::size_t at = (static_cast<std::uint64_t>(column) * 0x9e3779b97f4a7c15) >> shift_;
        while (keys_[at] != kNone && keys_[at] != static_cast<Index>(column)) at = (at + 1) & mask_;
        return at;
    }

    const RowProducts<kShort, T>& rows_;
    std::int64_t n_;
    int shift_ = 60;
    std::size_t mask_ = 0;
    std::vector<Index> keys_;
    std::vector<Sum<T>> sums_;
    std::vector<Index> found_;
};

}  // namespace gpumat::multiply::cpu::sparse
