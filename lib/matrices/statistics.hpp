#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "core/numbers/matrix.hpp"
#include "core/sparse/csr.hpp"

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
    /// The largest of the elements that are not NaN; absent where there is none.
    std::optional<ExactReal> largest_magnitude;
    double one_norm = 0;        ///< largest column sum of magnitudes
    double infinity_norm = 0;   ///< largest row sum of magnitudes
    double frobenius_norm = 0;  ///< scaled, so that it overflows only where the norm itself does
    bool square = false;
    bool symmetric = false;       ///< A = Aᵀ, exactly; never where A holds NaN
    bool skew_symmetric = false;  ///< A = −Aᵀ, exactly
    bool hermitian = false;       ///< A = Aᴴ, exactly; for real types the same as symmetric
};

/// Finds the statistics of a matrix that comes in blocks, on some threads, each with less than 64 KiB of work
/// space. Where blocks are no whole rows or columns, their sums are kept.
class BlockStatistics {
  public:
    static std::unique_ptr<BlockStatistics> of(const Shape& whole, Type type, int threads);

    virtual ~BlockStatistics() = default;
    BlockStatistics() = default;
    BlockStatistics(const BlockStatistics&) = delete;
    BlockStatistics& operator=(const BlockStatistics&) = delete;

    /// Each element once.
    virtual void take(const Block& block, const MatrixView& elements) = 0;

    /// Whether the matrix may still be symmetric, skew-symmetric or Hermitian.
    [[nodiscard]] virtual bool may_be_symmetric() const = 0;

    /// After that, where it may be: the blocks on and below the diagonal, each with that across the diagonal.
    virtual void compare(const Block& block, const MatrixView& elements, const MatrixView& across) = 0;

    /// The same two of sparse blocks of whole rows or whole columns: `across` is the transpose of the block
    /// across the diagonal. Sums of the lines that are not whole are kept.
    virtual void take(const Block& block, const CsrView& entries) = 0;
    virtual void compare(const CsrView& entries, const CsrView& across) = 0;

    /// Takes what was found in other blocks of the same matrix.
    virtual void merge(const BlockStatistics& others) = 0;

    [[nodiscard]] virtual Statistics finish() const = 0;
};

/// The statistics of a sparse matrix: those of the dense one that has these entries and is zero elsewhere.
/// With the sums of columns and, where the matrix is square, its transpose beside it.
Statistics statistics(const CsrView& matrix, int threads);

/// Bytes that this takes beside the matrix.
std::uint64_t statistics_bytes(const Shape& shape, Type type, std::int64_t entries);

/// Bytes that may be kept for sums of rows and columns.
std::uint64_t statistics_bytes(const Shape& whole);

/// The statistics of a matrix in memory.
Statistics statistics(const MatrixView& matrix, int threads);

}  // namespace gpumat
