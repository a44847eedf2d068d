#include "core/sparse/rows_of_columns.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"

namespace gpumat {
namespace {

/// The rows of the result are shared out among the threads, and each thread takes its share block by block,
/// so that the places to which it goes stay in the cache. Columns increase in each row of the matrix: what a
/// block takes of a row is what follows there.
template <class I, class T>
class ColumnSharing {
  public:
    ColumnSharing(const CsrView& from, const MutableCsrView& to, int threads)
        : from_(from),
          to_(to),
          threads_(threads),
          shares_(std::clamp<std::int64_t>(from.entries / (1 + kEntriesOfRow * from.shape.rows), 1, threads)),
          places_(static_cast<std::size_t>(to.shape.rows)) {}

    void run() {
        std::vector<std::vector<std::int64_t>> starts(static_cast<std::size_t>(shares_));
        parallel_for(shares_, 1, threads_, [&](std::int64_t share, std::int64_t) {
            starts[static_cast<std::size_t>(share)] = count(first_of(share), first_of(share + 1));
        });
        std::int64_t before = 0;
        for (std::int64_t row = 0; row < to_.shape.rows; ++row) {
            to_.pointers[row] = before;
            before += std::exchange(places_[static_cast<std::size_t>(row)], before);
        }
        to_.pointers[to_.shape.rows] = before;
        parallel_for(shares_, 1, threads_, [&](std::int64_t share, std::int64_t) {
            scatter(first_of(share), first_of(share + 1), starts[static_cast<std::size_t>(share)]);
        });
    }

  private:
    static constexpr std::int64_t kEntriesOfRow = 4;  ///< that a share takes at least, on average
    static constexpr std::int64_t kBlockEntries = 1 << 15;

    [[nodiscard]] std::int64_t first_of(std::int64_t share) const {
        return to_.shape.rows / shares_ * share + std::min(share, to_.shape.rows % shares_);
    }

    /// Counts the entries of some columns; where they begin in each row.
    std::vector<std::int64_t> count(std::int64_t first, std::int64_t end) {
        std::vector<std::int64_t> starts(static_cast<std::size_t>(from_.shape.rows));
        const I* const columns = from_.columns_as<I>();
        for (std::int64_t row = 0; row < from_.shape.rows; ++row) {
            const I* const last = columns + from_.pointers[row + 1];
            const I* at = columns + from_.pointers[row];
            if (first > 0) at = std::lower_bound(at, last, static_cast<I>(first));
            starts[static_cast<std::size_t>(row)] = at - columns;
            for (; at != last && *at < end; ++at) ++places_[static_cast<std::size_t>(*at)];
        }
        return starts;
    }

    void scatter(std::int64_t first, std::int64_t end, std::vector<std::int64_t>& starts) {
        const I* const columns = from_.columns_as<I>();
        const T* const values = from_.values_as<T>();
        I* const to_columns = to_.columns_as<I>();
        T* const to_values = to_.values_as<T>();
        const std::int64_t blocks = std::clamp<std::int64_t>(
            from_.entries / std::max(kBlockEntries, kEntriesOfRow * from_.shape.rows), 1, to_.shape.rows);
        const std::int64_t width = ceil_div(to_.shape.rows, blocks);
        for (std::int64_t begin = first; begin < end; begin += width) {
            const std::int64_t stop = std::min(end, begin + width);
            for (std::int64_t row = 0; row < from_.shape.rows; ++row) {
                std::int64_t at = starts[static_cast<std::size_t>(row)];
                for (; at < from_.pointers[row + 1] && columns[at] < stop; ++at) {
                    const std::int64_t place = places_[static_cast<std::size_t>(columns[at])]++;
                    to_columns[place] = static_cast<I>(row);
                    to_values[place] = values[at];
                }
                starts[static_cast<std::size_t>(row)] = at;
            }
        }
    }

    const CsrView& from_;
    const MutableCsrView& to_;
    int threads_;
    std::int64_t shares_;
    std::vector<std::int64_t> places_;  ///< of each row of the result: its entries, then where the next goes
};

}  // namespace

Csr rows_of_columns(const CsrView& matrix, int threads, const std::string& what) {
    Csr result(matrix.shape.transposed(), matrix.type, matrix.entries, what);
    const MutableCsrView to = result.view();
    if (matrix.entries == 0) {
        std::fill_n(to.pointers, to.shape.rows + 1, 0);
        return result;
    }
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        visit_type(matrix.type, [&]<class T>(TypeTag<T>) { ColumnSharing<I, T>(matrix, to, threads).run(); });
    });
    return result;
}

}  // namespace gpumat
