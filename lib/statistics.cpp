#include "lib/statistics.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <concepts>
#include <limits>
#include <mutex>
#include <type_traits>

#include "lib/core/parallel.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kTile = 64;     // rows and columns of the blocks in which A and Aᵀ are compared
constexpr std::int64_t kPanel = 4096;  // columns whose sums are made at once

template <class T>
constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

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

/// Everything but the sums of columns and what compares elements with each other.
template <class T>
Partial<T> summarise_rows(const MatrixView& matrix, int threads) {
    Partial<T> total;
    std::mutex mutex;
    const std::int64_t grain = row_grain(matrix.shape.rows, threads);
    parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        Partial<T> partial;
        for (std::int64_t i = begin; i < end; ++i) {
            const T* row = matrix.row<T>(i);
            double sum = 0;
            for (std::int64_t j = 0; j < matrix.shape.cols; ++j) sum += partial.add(row[j]);
            partial.infinity_norm = std::max(partial.infinity_norm, sum);
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

/// The largest sum of a panel.
template <class T>
double largest_column_sum(const MatrixView& matrix, std::int64_t first, int threads) {
    const std::int64_t count = std::min(kPanel, matrix.shape.cols - first);
    PanelSums total{};
    std::mutex mutex;
    const std::int64_t grain = row_grain(matrix.shape.rows, threads);
    parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        PanelSums sums{};
        add_columns<T>(matrix, begin, end, first, count, sums);
        const std::lock_guard lock(mutex);
        for (std::size_t j = 0; j < sums.size(); ++j) total[j] += sums[j];
    });
    return *std::max_element(total.begin(), total.end());
}

/// The largest sum of magnitudes of a column, where no element is NaN. The threads share the panels of
/// columns where there are enough, else the rows of each.
template <class T>
double one_norm(const MatrixView& matrix, int threads) {
    const std::int64_t panels = (matrix.shape.cols - 1) / kPanel + 1;
    const bool wide = panels >= threads;
    double largest = 0;
    std::mutex mutex;
    parallel_for(panels, 1, wide ? threads : 1, [&](std::int64_t panel, std::int64_t) {
        const double sum = largest_column_sum<T>(matrix, panel * kPanel, wide ? 1 : threads);
        const std::lock_guard lock(mutex);
        largest = std::max(largest, sum);
    });
    return largest;
}

template <class T>
Statistics summarise(const MatrixView& matrix, int threads) {
    Statistics found;
    if (matrix.shape.rows == 0 || matrix.shape.cols == 0) return found;
    const Partial<T> total = summarise_rows<T>(matrix, threads);
    found.nonzeros = total.nonzeros;
    found.nans = total.nans;
    found.infinities = total.infinities;
    total.extremes.put_into(found);
    if (found.nans > 0) {
        found.one_norm = found.infinity_norm = found.frobenius_norm =
            std::numeric_limits<double>::quiet_NaN();
        return found;
    }
    found.one_norm = one_norm<T>(matrix, threads);
    found.infinity_norm = total.infinity_norm;
    found.frobenius_norm = total.squares.norm();
    return found;
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

/// Compares A with Aᵀ block by block, so that both sides stay in the cache.
template <class T>
Symmetry find_symmetry(const MatrixView& matrix, int threads) {
    const std::int64_t n = matrix.shape.rows;
    std::atomic<bool> symmetric{true};
    std::atomic<bool> skew{true};
    std::atomic<bool> hermitian{true};
    parallel_for(n, kTile, threads, [&](std::int64_t begin, std::int64_t end) {
        Symmetry found = {symmetric, skew, hermitian};
        for (std::int64_t left = 0; left < end && found.any(); left += kTile) {
            for (std::int64_t i = begin; i < end; ++i) {
                for (std::int64_t j = left; j < std::min(left + kTile, i + 1); ++j) {
                    compare(matrix.row<T>(i)[j], matrix.row<T>(j)[i], found);
                }
            }
        }
        if (!found.symmetric) symmetric = false;
        if (!found.skew) skew = false;
        if (!found.hermitian) hermitian = false;
    });
    return {symmetric, skew, kIsComplex<T> ? hermitian.load() : symmetric.load()};
}

}  // namespace

Statistics statistics(const MatrixView& matrix, int threads) {
    return visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        Statistics found = summarise<T>(matrix, threads);
        found.square = matrix.shape.rows == matrix.shape.cols;
        if (found.square) {
            const Symmetry symmetry = find_symmetry<T>(matrix, threads);
            found.symmetric = symmetry.symmetric;
            found.skew_symmetric = symmetry.skew;
            found.hermitian = symmetry.hermitian;
        }
        return found;
    });
}

}  // namespace gpumat
