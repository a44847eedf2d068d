#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "lib/core/matrix.hpp"

namespace gpumat {

/// A real number that is exactly what an element says: integers stay integers, every floating-point type fits
/// in a double.
using ExactReal = std::variant<std::int64_t, std::uint64_t, double>;

/// What the elements of a matrix are like. Norms are sums in double precision of magnitudes that are rounded
/// to double first: their last digits depend on the order of the additions. A norm is NaN where an element
/// is.
struct Statistics {
    std::int64_t nonzeros = 0;  ///< NaN counts as one
    std::int64_t nans = 0;
    std::int64_t infinities = 0;
    /// Smallest and largest element that is not NaN (-0 counts as 0); absent for complex types and where
    /// there is none.
    std::optional<ExactReal> smallest;
    std::optional<ExactReal> largest;
    /// Of the elements that are not NaN; absent where there is none.
    std::optional<ExactReal> largest_magnitude;
    double one_norm = 0;        ///< largest column sum of magnitudes
    double infinity_norm = 0;   ///< largest row sum of magnitudes
    double frobenius_norm = 0;  ///< scaled, so that it overflows only where the norm itself does
    bool square = false;
    bool symmetric = false;       ///< A = Aᵀ, exactly; never where A holds NaN
    bool skew_symmetric = false;  ///< A = −Aᵀ, exactly
    bool hermitian = false;       ///< A = Aᴴ, exactly; for real types the same as symmetric
};

/// Every statistic in a few passes over the matrix, on `threads` threads, each with less than 64 KiB of work
/// space whatever the shape.
Statistics statistics(const MatrixView& matrix, int threads);

}  // namespace gpumat
