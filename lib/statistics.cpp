#include "lib/statistics.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <mutex>
#include <type_traits>
#include <vector>

#include "lib/core/parallel.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kTile = 64;  // rows and columns of the blocks in which A and Aᵀ are compared

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

/// What one piece of rows gives.
struct Partial {
    Statistics found;
    ScaledSquares squares;
    std::vector<double> column_sums;
};

template <class T>
void add_element(T element, Partial& partial, double& row_sum, double& column_sum) {
    const auto value = widen(element);
    Statistics& found = partial.found;
    if (is_nan(value)) {
        ++found.nans;
        ++found.nonzeros;
        return;
    }
    const double size = magnitude(value);
    if (size != 0) ++found.nonzeros;
    if (std::isinf(size)) ++found.infinities;
    found.largest_magnitude = std::max(found.largest_magnitude, size);
    row_sum += size;
    column_sum += size;
    partial.squares.add(size);
    if constexpr (!kIsComplex<T>) {
        found.smallest = std::min(found.smallest.value_or(value), value);
        found.largest = std::max(found.largest.value_or(value), value);
    }
}

void merge(const Partial& partial, Partial& total) {
    Statistics& into = total.found;
    const Statistics& from = partial.found;
    into.nonzeros += from.nonzeros;
    into.nans += from.nans;
    into.infinities += from.infinities;
    into.largest_magnitude = std::max(into.largest_magnitude, from.largest_magnitude);
    into.infinity_norm = std::max(into.infinity_norm, from.infinity_norm);
    if (from.smallest) into.smallest = std::min(into.smallest.value_or(*from.smallest), *from.smallest);
    if (from.largest) into.largest = std::max(into.largest.value_or(*from.largest), *from.largest);
    total.squares.add(partial.squares);
    for (std::size_t j = 0; j < total.column_sums.size(); ++j) total.column_sums[j] += partial.column_sums[j];
}

template <class T>
Statistics summarise(const MatrixView& matrix, int threads) {
    const auto columns = static_cast<std::size_t>(matrix.shape.cols);
    Partial total;
    total.column_sums.resize(columns);
    std::mutex mutex;
    const std::int64_t grain = std::max<std::int64_t>(1, matrix.shape.rows / (4 * std::max(1, threads)));
    parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        Partial partial;
        partial.column_sums.resize(columns);
        for (std::int64_t i = begin; i < end; ++i) {
            const T* row = matrix.row<T>(i);
            double row_sum = 0;
            for (std::size_t j = 0; j < columns; ++j)
                add_element(row[j], partial, row_sum, partial.column_sums[j]);
            partial.found.infinity_norm = std::max(partial.found.infinity_norm, row_sum);
        }
        const std::lock_guard lock(mutex);
        merge(partial, total);
    });
    for (const double sum : total.column_sums) total.found.one_norm = std::max(total.found.one_norm, sum);
    total.found.frobenius_norm = total.squares.norm();
    return total.found;
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
