// multiply of sparse matrices, CPU level `binned`: each row by the way that suits its number of products.
//
// Since `hash`: rows of B are merged into a row of few products, which needs no table; one of many has a sum
// for each column of C and a bit that says which are there, so that a product finds its place without a
// search and the columns come out sorted; the others have a table. Shares have equally many products, so that
// no thread waits for another. What limits it: the cache misses on rows of B, and the products that are
// visited twice.
//
// Source of the idea: rows in bins by their products (Liu and Vinter 2014); a dense accumulator (Gilbert,
// Moler and Schreiber 1992).
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory>

#include "core/memory.hpp"
#include "kernels/multiply/cpu/sparse/counted.hpp"
#include "kernels/multiply/cpu/sparse/hash_row.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

/// Products of a row that is sorted as it comes.
constexpr std::int64_t kMostSorted = 64;
/// Columns of a result that has a sum for each, and how many there are for a product at most.
constexpr std::int64_t kMostDense = 1 << 24;
constexpr std::int64_t kColumnsAProduct = 16;

bool may_be_dense(std::int64_t n) {
    return n <= kMostDense;
}

/// Columns and sums that are kept sorted: each row of B is merged with what there is, without a branch that
/// depends on which column is less.
template <bool kShort, class T>
class SortedRow {
  public:
    explicit SortedRow(const RowProducts<kShort, T>& rows) : rows_(rows) {}
    SortedRow(const SortedRow&) = delete;
    SortedRow& operator=(const SortedRow&) = delete;

    std::int64_t count(std::int64_t i) {
        merge<false>(i);
        return entries_;
    }

    void fill(const MutableOperand& c, std::int64_t i) {
        merge<true>(i);
        typename RowProducts<kShort, T>::Writer to(rows_, c, i);
        for (std::size_t at = 0; at < static_cast<std::size_t>(entries_); ++at)
            to.put(now_->columns[at], now_->sums[at]);
    }

  private:
    using Index = std::conditional_t<kShort, std::int32_t, std::int64_t>;
    static constexpr std::int64_t kEnd = std::numeric_limits<Index>::max();  // no column is that

    struct Row {
        std::array<Index, kMostSorted + 1> columns;
        std::array<Sum<T>, kMostSorted + 1> sums;
    };

    template <bool kValues>
    void merge(std::int64_t i) {
        entries_ = 0;
        rows_.template for_each_line<kValues>(i, [&](const auto& line) {
            Row& from = *now_;
            Row& to = *next_;
            from.columns[static_cast<std::size_t>(entries_)] = static_cast<Index>(kEnd);
            if (kValues) from.sums[static_cast<std::size_t>(entries_)] = Sum<T>{};
            std::size_t left = 0;
            std::size_t count = 0;
            std::int64_t at = line.first;
            while (at < line.last) {
                const std::int64_t there = from.columns[left];
                const std::int64_t here = line.columns[at];
                to.columns[count] = static_cast<Index>(std::min(there, here));
                if constexpr (kValues) {
                    const Sum<T> sum = there <= here ? from.sums[left] : Sum<T>{};
                    to.sums[count] = here <= there ? line.added_to(sum, at) : sum;
                }
                left += there <= here ? 1 : 0;
                at += here <= there ? 1 : 0;
                ++count;
            }
            for (; left < static_cast<std::size_t>(entries_); ++left, ++count) {
                to.columns[count] = from.columns[left];
                if (kValues) to.sums[count] = from.sums[left];
            }
            entries_ = static_cast<std::int64_t>(count);
            std::swap(now_, next_);
        });
    }

    const RowProducts<kShort, T>& rows_;
    std::int64_t entries_ = 0;
    std::array<Row, 2> both_{};
    Row* now_ = both_.data();
    Row* next_ = both_.data() + 1;
};

/// A sum for each column, and a bit for each that has one.
template <bool kShort, class T>
class DenseRow {
  public:
    DenseRow(const RowProducts<kShort, T>& rows, std::int64_t n) : rows_(rows), n_(n) {}

    std::int64_t count(std::int64_t i) {
        mark(i);
        std::int64_t entries = 0;
        for (std::uint64_t& word : marks_) {
            entries += std::popcount(word);
            word = 0;
        }
        return entries;
    }

    void fill(const MutableOperand& c, std::int64_t i) {
        marks_.resize(static_cast<std::size_t>(n_ / 64 + 1));
        sums_.resize(static_cast<std::size_t>(n_));
        rows_.add_all(i, [&](std::int64_t column) -> Sum<T>& {
            const auto at = static_cast<std::size_t>(column);
            marks_[at / 64] |= std::uint64_t{1} << at % 64;
            return sums_[at];
        });
        typename RowProducts<kShort, T>::Writer to(rows_, c, i);
        for (std::size_t word = 0; word < marks_.size(); ++word) {
            for (std::uint64_t bits = marks_[word]; bits != 0; bits &= bits - 1) {
                const std::size_t at = 64 * word + static_cast<std::size_t>(std::countr_zero(bits));
                to.put(static_cast<std::int64_t>(at), std::exchange(sums_[at], Sum<T>{}));
            }
            marks_[word] = 0;
        }
    }

  private:
    void mark(std::int64_t i) {
        marks_.resize(static_cast<std::size_t>(n_ / 64 + 1));
        rows_.for_each_column(i, [&](std::int64_t column) {
            const auto at = static_cast<std::size_t>(column);
            marks_[at / 64] |= std::uint64_t{1} << at % 64;
        });
    }

    const RowProducts<kShort, T>& rows_;
    std::int64_t n_;
    std::vector<std::uint64_t> marks_;  // all 0 between rows
    std::vector<Sum<T>> sums_;          // likewise
};

template <bool kShort, class T>
class BinnedWorker {
  public:
    BinnedWorker(const RowProducts<kShort, T>& rows, std::int64_t n)
        : rows_(rows), n_(n), sorted_(rows), hash_(rows, n), dense_(rows, n) {}

    std::int64_t count(std::int64_t i) {
        const std::int64_t products = rows_.count(i);
        if (products <= kMostSorted) return sorted_.count(i);
        return is_dense(products) ? dense_.count(i) : hash_.count(i, products);
    }

    void fill(const MutableOperand& c, std::int64_t i) {
        const std::int64_t products = rows_.count(i);
        if (products <= kMostSorted) return sorted_.fill(c, i);
        if (is_dense(products)) return dense_.fill(c, i);
        hash_.fill(c, i, products);
    }

  private:
    [[nodiscard]] bool is_dense(std::int64_t products) const {
        return may_be_dense(n_) && products >= n_ / kColumnsAProduct;
    }

    const RowProducts<kShort, T>& rows_;
    std::int64_t n_;
    SortedRow<kShort, T> sorted_;
    HashRow<kShort, T> hash_;
    DenseRow<kShort, T> dense_;
};

/// Rows in shares of about equally many products, through memory for a number a row.
template <bool kShort, class T>
std::vector<std::int64_t> shares_of(const RowProducts<kShort, T>& rows, std::int64_t m, int threads,
                                    std::int64_t* before) {
    constexpr std::int64_t kRowsAtOnce = 4096;
    constexpr std::int64_t kShares = 512;
    parallel_for(m, kRowsAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) before[i + 1] = 1 + rows.count(i);
    });
    before[0] = 0;
    for (std::int64_t i = 0; i < m; ++i) before[i + 1] += before[i];
    std::vector<std::int64_t> shares = {0};
    for (std::int64_t share = 1; share < kShares; ++share) {
        const std::int64_t wanted = before[m] / kShares * share;
        const std::int64_t row = std::lower_bound(before, before + m, wanted) - before;
        if (row > shares.back()) shares.push_back(row);
    }
    shares.push_back(m);
    return shares;
}

}  // namespace

Launch prepare_binned(const Problem& problem, const Operands& operands, const Device& device) {
    const auto plain = std::make_shared<PlainOperands>(problem, operands, device);
    return {.level = "binned", .run = [plain, threads = device.threads](Stream) {
                const Problem& p = plain->problem();
                const Operands& all = plain->make();
                visit_product(p, [&]<bool kShort, class T>() {
                    const RowProducts<kShort, T> rows(p, all);
                    const auto shares = shares_of(rows, p.m, threads, all.c.pointers);
                    count_and_fill(all, shares, threads, [&] { return BinnedWorker<kShort, T>(rows, p.n); });
                });
            }};
}

}  // namespace gpumat::multiply::cpu::sparse
