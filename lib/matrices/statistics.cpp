#include "lib/matrices/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <concepts>
#include <limits>
#include <mutex>
#include <type_traits>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "lib/matrices/element_statistics.hpp"
#include "lib/stored/sparse_rows.hpp"

namespace gpumat {
namespace {

using elements::magnitude;
using elements::Partial;
using elements::widen;

constexpr std::int64_t kTile = 64;     // rows and columns of the blocks in which A and Aᵀ are compared
constexpr std::int64_t kPanel = 4096;  // columns whose sums are made at once

/// Pieces of rows that keep all threads busy to the end.
std::int64_t row_grain(std::int64_t rows, int threads) {
    return std::max<std::int64_t>(1, rows / (4 * std::max(1, threads)));
}

/// Everything but the sums of columns and what compares elements with each other. The sums of rows go to
/// `row_sums`, or, where that is null, are those of whole rows.
template <class T>
Partial<T> summarise_rows(const MatrixView& matrix, int threads, double* row_sums) {
    Partial<T> total;
    std::mutex mutex;
    const std::int64_t grain = row_grain(matrix.shape.rows, threads);
    parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        Partial<T> partial;
        for (std::int64_t i = begin; i < end; ++i) {
            const T* row = matrix.row<T>(i);
            const double sum = partial.add_all(row, matrix.shape.cols);
            if (row_sums != nullptr) {
                row_sums[i] += sum;
            } else {
                partial.infinity_norm = std::max(partial.infinity_norm, sum);
            }
        }
        const std::lock_guard lock(mutex);
        total.add(partial);
    });
    return total;
}

using PanelSums = std::array<double, kPanel>;

/// Adds the magnitudes of rows [begin, end) of the panel of columns that starts at `first`.
template <class T>
void add_columns(const MatrixView& matrix, std::int64_t begin, std::int64_t end, std::int64_t first,
                 std::int64_t count, PanelSums& sums) {
    for (std::int64_t i = begin; i < end; ++i) {
        const T* row = matrix.row<T>(i) + first;
        for (std::int64_t j = 0; j < count; ++j)
            sums[static_cast<std::size_t>(j)] += magnitude(widen(row[j]));
    }
}

/// The sums of a panel.
template <class T>
PanelSums sums_of_panel(const MatrixView& matrix, std::int64_t first, std::int64_t count, int threads) {
    PanelSums total{};
    std::mutex mutex;
    const std::int64_t grain = row_grain(matrix.shape.rows, threads);
    parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        PanelSums sums{};
        add_columns<T>(matrix, begin, end, first, count, sums);
        const std::lock_guard lock(mutex);
        for (std::size_t j = 0; j < sums.size(); ++j) total[j] += sums[j];
    });
    return total;
}

/// Sums of magnitudes of columns, where no element is NaN: they go to `column_sums`, or, where that is null,
/// are those of whole columns, of which the largest is returned. The threads share the panels of columns
/// where there are enough, else the rows of each.
template <class T>
double sum_columns(const MatrixView& matrix, int threads, double* column_sums) {
    const std::int64_t panels = (matrix.shape.cols - 1) / kPanel + 1;
    const bool wide = panels >= threads;
    double largest = 0;
    std::mutex mutex;
    parallel_for(panels, 1, wide ? threads : 1, [&](std::int64_t panel, std::int64_t) {
        const std::int64_t first = panel * kPanel;
        const std::int64_t count = std::min(kPanel, matrix.shape.cols - first);
        const PanelSums sums = sums_of_panel<T>(matrix, first, count, wide ? 1 : threads);
        const std::lock_guard lock(mutex);
        if (column_sums == nullptr) largest = std::max(largest, *std::max_element(sums.begin(), sums.end()));
        for (std::int64_t j = 0; column_sums != nullptr && j < count; ++j)
            column_sums[first + j] += sums[static_cast<std::size_t>(j)];
    });
    return largest;
}

/// What a matrix may still be. Of real ones `symmetric` says whether they are Hermitian.
struct Symmetry {
    bool symmetric = true;
    bool skew = true;
    bool hermitian = true;

    [[nodiscard]] bool any() const { return symmetric || skew || hermitian; }
    void merge(const Symmetry& other) {
        symmetric &= other.symmetric;
        skew &= other.skew;
        hermitian &= other.hermitian;
    }
};

template <class T>
void compare(T here, T there, Symmetry& symmetry) {
    const auto a = widen(here);
    const auto b = widen(there);
    if (!(a == b)) symmetry.symmetric = false;
    if (!(a == -b)) symmetry.skew = false;
    if constexpr (kIsComplex<T>) {
        if (!(a == std::conj(b))) symmetry.hermitian = false;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
        // Doubles do not tell neighbouring 64-bit integers apart.
        if (here != there) symmetry.symmetric = false;
        if (static_cast<std::uint64_t>(here) + static_cast<std::uint64_t>(there) != 0) symmetry.skew = false;
    }
}

/// Compares a block on or below the diagonal with that across, tile by tile, so that both sides stay in the
/// cache.
template <class T>
void compare_across(const Block& block, const MatrixView& here, const MatrixView& there, int threads,
                    Symmetry& symmetry) {
    std::mutex mutex;
    parallel_for(block.rows, kTile, threads, [&](std::int64_t begin, std::int64_t end) {
        Symmetry found;
        {
            const std::lock_guard lock(mutex);
            found = symmetry;
        }
        for (std::int64_t left = 0; left < block.cols && found.any(); left += kTile) {
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t diagonal = block.row + i - block.col;
                const std::int64_t last = std::min({left + kTile, block.cols, diagonal + 1});
                for (std::int64_t j = left; j < last; ++j)
                    compare(here.row<T>(i)[j], there.row<T>(j)[i], found);
            }
        }
        const std::lock_guard lock(mutex);
        symmetry.merge(found);
    });
}

// ---- Sparse matrices ------------------------------------------------------------------------------------

/// Shares of the rows with sums of columns of their own: as many as pay for them.
std::int64_t shares_with_sums(const CsrView& matrix, int threads) {
    return std::clamp<std::int64_t>(matrix.entries / 8 / std::max<std::int64_t>(matrix.shape.cols, 1), 1,
                                    threads);
}

/// Whether there are columns enough without an entry that their sums are not kept.
bool has_few_columns(const Shape& shape, std::int64_t entries) {
    return shape.cols <= std::max<std::int64_t>(entries, kPanel);
}

/// Where a share of the rows begins, so that all have about as many entries.
std::int64_t first_row_of(const CsrView& matrix, std::int64_t share, std::int64_t shares) {
    if (share == shares) return matrix.shape.rows;
    const std::int64_t entry = matrix.entries / shares * share;
    return std::lower_bound(matrix.pointers, matrix.pointers + matrix.shape.rows, entry) - matrix.pointers;
}

/// Adds up some rows, and their magnitudes by rows and by columns where those sums are not null.
template <class T>
Partial<T> summarise_entries(const CsrView& matrix, std::int64_t begin, std::int64_t end, double* row_sums,
                             double* sums) {
    return visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        const I* const columns = matrix.columns_as<I>();
        const T* const values = matrix.values_as<T>();
        Partial<T> partial;
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = matrix.pointers[i];
            const std::int64_t last = matrix.pointers[i + 1];
            const double sum = partial.add_all(values + first, last - first);
            if (row_sums == nullptr)
                partial.infinity_norm = std::max(partial.infinity_norm, sum);
            else
                row_sums[i] += sum;
            for (std::int64_t at = first; sums != nullptr && at < last; ++at)
                sums[columns[at]] += magnitude(widen(values[at]));
        }
        return partial;
    });
}

/// The largest sum of a column of few entries.
template <class T>
double largest_column_of(const CsrView& matrix) {
    std::vector<std::pair<std::int64_t, std::int64_t>> entries(static_cast<std::size_t>(matrix.entries));
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        for (std::int64_t at = 0; at < matrix.entries; ++at)
            entries[static_cast<std::size_t>(at)] = {matrix.columns_as<I>()[at], at};
    });
    std::ranges::sort(entries);
    double largest = 0;
    double sum = 0;
    std::int64_t column = -1;
    for (const auto& [col, at] : entries) {
        sum = (col == column ? sum : 0) + magnitude(widen(matrix.values_as<T>()[at]));
        column = col;
        largest = std::max(largest, sum);
    }
    return largest;
}

template <class T>
void compare_entries(const CsrView& here, const CsrView& there, int threads, Symmetry& symmetry) {
    std::mutex mutex;
    const auto value_at = [](const CsrView& matrix, std::int64_t at) {
        return at < 0 ? T{} : matrix.values_as<T>()[at];
    };
    parallel_for(here.shape.rows, rows_together(here), threads, [&](std::int64_t begin, std::int64_t end) {
        Symmetry found;
        {
            const std::lock_guard lock(mutex);
            found = symmetry;
        }
        visit_index(here.shape, [&]<class I>(TypeTag<I>) {
            for (std::int64_t i = begin; i < end && found.any(); ++i)
                merge_row<I>(here, there, i, [&](std::int64_t, std::int64_t x, std::int64_t y) {
                    compare(value_at(here, x), value_at(there, y), found);
                });
        });
        const std::lock_guard lock(mutex);
        symmetry.merge(found);
    });
}

template <class T>
class StatisticsOf final : public BlockStatistics {
  public:
    StatisticsOf(const Shape& whole, int threads) : whole_(whole), threads_(threads) {
        if (whole.rows != whole.cols) symmetry_ = {false, false, false};
    }

    void take(const Block& block, const MatrixView& elements) override {
        if (block.rows == 0 || block.cols == 0) return;
        total_.add(summarise_rows<T>(
            elements, threads_, sums_from(block.row, row_sums_, whole_.rows, block.cols == whole_.cols)));
        if (total_.nans > 0) return;
        largest_column_ = std::max(
            largest_column_,
            sum_columns<T>(elements, threads_,
                           sums_from(block.col, column_sums_, whole_.cols, block.rows == whole_.rows)));
    }

    /// The whole matrix, of which zeros that are not stored are one element.
    void take(const CsrView& matrix) {
        const Shape& shape = matrix.shape;
        const bool keeps_sums = has_few_columns(shape, matrix.entries);
        const std::int64_t shares = shares_with_sums(matrix, threads_);
        std::vector<Partial<T>> partials(static_cast<std::size_t>(shares));
        std::vector<double> sums(static_cast<std::size_t>(keeps_sums ? shares * shape.cols : 0));
        parallel_for(shares, 1, threads_, [&](std::int64_t share, std::int64_t) {
            partials[static_cast<std::size_t>(share)] = summarise_entries<T>(
                matrix, first_row_of(matrix, share, shares), first_row_of(matrix, share + 1, shares), nullptr,
                keeps_sums ? sums.data() + share * shape.cols : nullptr);
        });
        for (const Partial<T>& partial : partials) total_.add(partial);
        if (static_cast<double>(matrix.entries) <
            static_cast<double>(shape.rows) * static_cast<double>(shape.cols))
            (void)total_.add(T{});
        if (total_.nans == 0 && !keeps_sums) largest_column_ = largest_column_of<T>(matrix);
        for (std::int64_t col = 0; total_.nans == 0 && keeps_sums && col < shape.cols; ++col) {
            double sum = 0;
            for (std::int64_t share = 0; share < shares; ++share)
                sum += sums[static_cast<std::size_t>(share * shape.cols + col)];
            largest_column_ = std::max(largest_column_, sum);
        }
        if (!may_be_symmetric()) return;
        const Csr across = transposed(matrix, threads_);
        compare_entries<T>(matrix, across.view(), threads_, symmetry_);
    }

    void take(const Block& block, const CsrView& entries) override {
        double* const row_sums =
            sums_from(block.row, row_sums_, whole_.rows, entries.shape.cols == whole_.cols);
        const bool whole_columns = block.rows == whole_.rows;
        std::vector<double> sums_of_block(static_cast<std::size_t>(whole_columns ? block.cols : 0));
        double* const column_sums =
            whole_columns ? sums_of_block.data() : sums_from(block.col, column_sums_, whole_.cols, false);
        total_.add(summarise_entries<T>(entries, 0, block.rows, row_sums, column_sums));
        largest_column_ = largest_of(sums_of_block, largest_column_);
        if (static_cast<double>(entries.entries) <
            static_cast<double>(block.rows) * static_cast<double>(block.cols))
            (void)total_.add(T{});
    }

    void compare(const CsrView& entries, const CsrView& across) override {
        compare_entries<T>(entries, across, threads_, symmetry_);
    }

    void merge(const BlockStatistics& others) override {
        const auto& other = dynamic_cast<const StatisticsOf&>(others);
        total_.add(other.total_);
        add(other.row_sums_, row_sums_);
        add(other.column_sums_, column_sums_);
        largest_column_ = std::max(largest_column_, other.largest_column_);
        symmetry_.merge(other.symmetry_);
    }

    [[nodiscard]] bool may_be_symmetric() const override { return symmetry_.any(); }

    void compare(const Block& block, const MatrixView& elements, const MatrixView& across) override {
        compare_across<T>(block, elements, across, threads_, symmetry_);
    }

    [[nodiscard]] Statistics finish() const override {
        Statistics found;
        found.square = whole_.rows == whole_.cols;
        found.symmetric = symmetry_.symmetric;
        found.skew_symmetric = symmetry_.skew;
        found.hermitian = kIsComplex<T> ? symmetry_.hermitian : symmetry_.symmetric;
        found.nonzeros = total_.nonzeros;
        found.nans = total_.nans;
        found.infinities = total_.infinities;
        total_.extremes.put_into(found);
        if (found.nans > 0) {
            found.one_norm = found.infinity_norm = found.frobenius_norm =
                std::numeric_limits<double>::quiet_NaN();
            return found;
        }
        found.one_norm = largest_of(column_sums_, largest_column_);
        found.infinity_norm = largest_of(row_sums_, total_.infinity_norm);
        found.frobenius_norm = total_.squares.norm();
        return found;
    }

  private:
    /// Where sums from `first` on are added up; null where they come as a whole.
    static double* sums_from(std::int64_t first, std::vector<double>& sums, std::int64_t count, bool whole) {
        if (whole) return nullptr;
        sums.resize(static_cast<std::size_t>(count));
        return sums.data() + first;
    }

    static void add(const std::vector<double>& sums, std::vector<double>& to) {
        to.resize(std::max(to.size(), sums.size()));
        for (std::size_t at = 0; at < sums.size(); ++at) to[at] += sums[at];
    }

    static double largest_of(const std::vector<double>& sums, double others) {
        return sums.empty() ? others : std::max(others, *std::ranges::max_element(sums));
    }

    Shape whole_;
    int threads_;
    Partial<T> total_;
    std::vector<double> row_sums_;
    std::vector<double> column_sums_;
    double largest_column_ = 0;
    Symmetry symmetry_ = {.hermitian = kIsComplex<T>};
};

}  // namespace

std::unique_ptr<BlockStatistics> BlockStatistics::of(const Shape& whole, Type type, int threads) {
    return visit_type(type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<BlockStatistics> {
        return std::make_unique<StatisticsOf<T>>(whole, threads);
    });
}

std::uint64_t statistics_bytes(const Shape& whole) {
    const auto sums = [](std::int64_t count, std::int64_t across) {
        return across > 1 ? static_cast<std::uint64_t>(count) * sizeof(double) : 0;
    };
    return sums(whole.rows, whole.cols) + sums(whole.cols, whole.rows);
}

Statistics statistics(const CsrView& matrix, int threads) {
    return visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        StatisticsOf<T> found(matrix.shape, threads);
        found.take(matrix);
        return found.finish();
    });
}

std::uint64_t statistics_bytes(const Shape& shape, Type type, std::int64_t entries) {
    const auto count = static_cast<std::uint64_t>(entries);
    // Shares beyond the first one have fewer sums in all than there are eighths of the entries.
    const std::uint64_t sums =
        has_few_columns(shape, entries)
            ? saturating_add(saturating_multiply(static_cast<std::uint64_t>(shape.cols), sizeof(double)),
                             count)
            : saturating_multiply(count, 2 * sizeof(std::int64_t));
    // The level that transposes takes as much beside it at most.
    const std::uint64_t across = shape.rows == shape.cols ? csr_bytes(shape, type, entries) : 0;
    return saturating_add(sums, saturating_multiply(2, across));
}

Statistics statistics(const MatrixView& matrix, int threads) {
    const Block whole = Block::whole(matrix.shape);
    const auto found = BlockStatistics::of(matrix.shape, matrix.type, threads);
    found->take(whole, matrix);
    if (found->may_be_symmetric()) found->compare(whole, matrix, matrix);
    return found->finish();
}

}  // namespace gpumat
