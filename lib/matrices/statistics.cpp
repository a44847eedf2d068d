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
#include "lib/stored/sparse_rows.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kTile = 64;     // rows and columns of the blocks in which A and Aᵀ are compared
constexpr std::int64_t kPanel = 4096;  // columns whose sums are made at once

/// The element in double precision, complex where it is.
template <class T>
auto widen(T value) {
    if constexpr (kIsComplex<T>) {
        return std::complex<double>(value);
    } else {
        return static_cast<double>(value);
    }
}

double magnitude(double value) {
    return std::abs(value);
}
double magnitude(std::complex<double> value) {
    return std::hypot(value.real(), value.imag());
}

bool is_nan(double value) {
    return std::isnan(value);
}
bool is_nan(std::complex<double> value) {
    return std::isnan(value.real()) || std::isnan(value.imag());
}

bool has_infinity(double value) {
    return std::isinf(value);
}
bool has_infinity(std::complex<double> value) {
    return std::isinf(value.real()) || std::isinf(value.imag());
}

/// A sum of squares as scale² · sum, which neither overflows nor underflows before the norm does.
struct ScaledSquares {
    double scale = 0;
    double sum = 0;

    void add(double value) {
        if (value == 0) return;
        if (value > scale) {
            sum = sum * (scale / value) * (scale / value) + 1;
            scale = value;
        } else if (std::isinf(value)) {
            sum = value;  // the scale is infinite already
        } else {
            sum += (value / scale) * (value / scale);
        }
    }
    void add(const ScaledSquares& other) {
        if (other.scale == 0) return;
        if (other.scale > scale) {
            sum = sum * (scale / other.scale) * (scale / other.scale) + other.sum;
            scale = other.scale;
        } else {
            sum += other.sum * (other.scale / scale) * (other.scale / scale);
        }
    }
    [[nodiscard]] double norm() const { return std::isinf(scale) ? scale : scale * std::sqrt(sum); }
};

/// An element as its extremes are kept: integers as they are, which a double may not tell apart.
template <class T>
auto exact(T value) {
    if constexpr (std::is_integral_v<T>) {
        return value;
    } else {
        return widen(value);
    }
}

ExactReal as_real(double value) {
    return value + 0.0;  // -0 becomes 0
}
template <std::integral T>
ExactReal as_real(T value) {
    return static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value);
}

ExactReal magnitude_of(double value) {
    return std::abs(value);
}
template <std::integral T>
ExactReal magnitude_of(T value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return value < 0 ? 0 - bits : bits;  // the magnitude of the smallest integer passes its own type
}

ExactReal larger(const ExactReal& x, const ExactReal& y) {
    return x < y ? y : x;  // both hold the same type
}

/// The smallest and the largest element so far; of complex elements, which have no order, their magnitudes.
template <class T>
struct Extremes {
    using Value = std::conditional_t<kIsComplex<T>, double, decltype(exact(T{}))>;
    Value smallest{};
    Value largest{};
    bool any = false;

    void add(const Value& low, const Value& high) {
        smallest = any ? std::min(smallest, low) : low;
        largest = any ? std::max(largest, high) : high;
        any = true;
    }
    void put_into(Statistics& found) const {
        if (!any) return;
        found.largest_magnitude = larger(magnitude_of(smallest), magnitude_of(largest));
        if constexpr (!kIsComplex<T>) {
            found.smallest = as_real(smallest);
            found.largest = as_real(largest);
        }
    }
};

/// What some rows give.
template <class T>
struct Partial {
    std::int64_t nonzeros = 0;
    std::int64_t nans = 0;
    std::int64_t infinities = 0;
    Extremes<T> extremes;
    double infinity_norm = 0;
    ScaledSquares squares;

    /// Returns the magnitude of the element, 0 for NaN.
    double add(T element) {
        const auto value = widen(element);
        if (is_nan(value)) {
            ++nans;
            ++nonzeros;
            return 0;
        }
        const double size = magnitude(value);
        if (size != 0) ++nonzeros;
        if (has_infinity(value)) ++infinities;
        squares.add(size);
        if constexpr (kIsComplex<T>) {
            extremes.add(size, size);
        } else {
            extremes.add(exact(element), exact(element));
        }
        return size;
    }

    void add(const Partial& other) {
        nonzeros += other.nonzeros;
        nans += other.nans;
        infinities += other.infinities;
        infinity_norm = std::max(infinity_norm, other.infinity_norm);
        squares.add(other.squares);
        if (other.extremes.any) extremes.add(other.extremes.smallest, other.extremes.largest);
    }
};

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
            double sum = 0;
            for (std::int64_t j = 0; j < matrix.shape.cols; ++j) sum += partial.add(row[j]);
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

struct Symmetry {
    bool symmetric = true;
    bool skew = true;
    bool hermitian = true;

    [[nodiscard]] bool any() const { return symmetric || skew || hermitian; }
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
        symmetry.symmetric &= found.symmetric;
        symmetry.skew &= found.skew;
        symmetry.hermitian &= found.hermitian;
    });
}

// ---- Sparse matrices ------------------------------------------------------------------------------------

template <class T>
Partial<T> summarise_entries(const CsrView& matrix, int threads) {
    Partial<T> total;
    std::mutex mutex;
    parallel_for(matrix.shape.rows, rows_together(matrix), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     Partial<T> partial;
                     for (std::int64_t i = begin; i < end; ++i) {
                         double sum = 0;
                         for (std::int64_t at = matrix.pointers[i]; at < matrix.pointers[i + 1]; ++at)
                             sum += partial.add(matrix.values_as<T>()[at]);
                         partial.infinity_norm = std::max(partial.infinity_norm, sum);
                     }
                     const std::lock_guard lock(mutex);
                     total.add(partial);
                 });
    return total;
}

template <class T>
void add_columns_of_entries(const CsrView& matrix, std::vector<double>& sums) {
    sums.resize(static_cast<std::size_t>(matrix.shape.cols));
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        const I* const columns = matrix.columns_as<I>();
        for (std::int64_t at = 0; at < matrix.entries; ++at)
            sums[static_cast<std::size_t>(columns[at])] += magnitude(widen(matrix.values_as<T>()[at]));
    });
}

template <class T>
void compare_entries(const CsrView& here, const CsrView& there, int threads, Symmetry& symmetry) {
    std::mutex mutex;
    const auto value_at = [](const CsrView& matrix, std::int64_t at) {
        return at < 0 ? T{} : matrix.values_as<T>()[at];
    };
    parallel_for(here.shape.rows, rows_together(here), threads, [&](std::int64_t begin, std::int64_t end) {
        Symmetry found;
        visit_index(here.shape, [&]<class I>(TypeTag<I>) {
            for (std::int64_t i = begin; i < end && found.any(); ++i)
                merge_row<I>(here, there, i, [&](std::int64_t, std::int64_t x, std::int64_t y) {
                    compare(value_at(here, x), value_at(there, y), found);
                });
        });
        const std::lock_guard lock(mutex);
        symmetry.symmetric &= found.symmetric;
        symmetry.skew &= found.skew;
        symmetry.hermitian &= found.hermitian;
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
        total_.add(summarise_entries<T>(matrix, threads_));
        const Shape& shape = matrix.shape;
        if (static_cast<double>(matrix.entries) <
            static_cast<double>(shape.rows) * static_cast<double>(shape.cols))
            (void)total_.add(T{});
        if (total_.nans == 0) add_columns_of_entries<T>(matrix, column_sums_);
        if (!may_be_symmetric()) return;
        const Csr across = transposed(matrix, threads_);
        compare_entries<T>(matrix, across.view(), threads_, symmetry_);
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

    static double largest_of(const std::vector<double>& sums, double others) {
        return sums.empty() ? others : std::max(others, *std::ranges::max_element(sums));
    }

    Shape whole_;
    int threads_;
    Partial<T> total_;
    std::vector<double> row_sums_;
    std::vector<double> column_sums_;
    double largest_column_ = 0;
    Symmetry symmetry_;
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
    const std::uint64_t sums = saturating_multiply(static_cast<std::uint64_t>(shape.cols), sizeof(double));
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
