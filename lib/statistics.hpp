#pragma once

#include <cstdint>
#include <optional>

#include "lib/core/matrix.hpp"

namespace gpumat {

/// What the elements of a matrix are like. Sums are made in double precision.
struct Statistics {
    std::int64_t nonzeros = 0;  ///< NaN counts as one
    std::int64_t nans = 0;
    std::int64_t infinities = 0;
    /// Smallest and largest element that is not NaN; absent for complex types and where there is none.
    std::optional<double> smallest;
    std::optional<double> largest;
    double largest_magnitude = 0;
    double one_norm = 0;        ///< largest column sum of magnitudes
    double infinity_norm = 0;   ///< largest row sum of magnitudes
    double frobenius_norm = 0;  ///< scaled, so that it overflows only where the norm itself does
    bool square = false;
    bool symmetric = false;       ///< A = Aᵀ, exactly; never where A holds NaN
    bool skew_symmetric = false;  ///< A = −Aᵀ, exactly
    bool hermitian = false;       ///< A = Aᴴ, exactly; for real types the same as symmetric
};

/// Every statistic in two passes over the matrix, on `threads` threads.
Statistics statistics(const MatrixView& matrix, int threads);

}  // namespace gpumat
