#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"

// Comparing elements by value, whatever their types.
//
// Integers and floating-point numbers are compared exactly, also 64-bit integers with doubles; a real number
// equals a complex one without an imaginary part; −0 equals 0. Parts of complex elements are compared one by
// one, so that (NaN, 1) and (NaN, 2) differ. An infinity agrees only with itself, a NaN with NaN or with
// nothing.

namespace gpumat {

/// Which elements agree although they are not equal: those within `absolute` + `relative` · max(|x|, |y|),
/// and those within `ulps`. Whether real numbers are within the tolerance is decided exactly; moduli of
/// complex ones are rounded.
struct Tolerance {
    double relative = 0;
    double absolute = 0;
    /// Steps from one number of the coarser type to the next: the floating-point type beside an integer type,
    /// else the one of fewer digits; 1 between integers. Of complex elements, of the part that is farther
    /// apart.
    std::optional<std::uint64_t> ulps;
    bool nan_equal = true;
};

/// The largest number of ULPs that can be asked for: up to here a double counts them one by one.
inline constexpr std::uint64_t kMostUlps = (std::uint64_t{1} << 53) - 1;

/// An element, exactly.
using ExactValue = std::variant<std::int64_t, std::uint64_t, double, std::complex<double>>;

/// Two elements that are not equal. Row and column count from 0 in X.
struct Difference {
    std::int64_t row = 0;
    std::int64_t col = 0;
    ExactValue x;
    ExactValue y;
    double absolute = 0;           ///< |x − y|: a modulus; infinite beside an infinity, NaN beside a NaN
    double relative = 0;           ///< |x − y| / max(|x|, |y|); infinite and NaN as before
    std::optional<double> ulps{};  ///< of finite elements
};

/// Norms of the elements that are finite in both matrices.
struct Norms {
    double largest = 0;       ///< magnitude
    long double squares = 0;  ///< their sum; the range of long double holds that of any doubles

    [[nodiscard]] double frobenius() const;
    void add(const Norms& other);
};

/// What the comparison of some elements found, but for the list of differences.
struct ElementSums {
    std::int64_t unequal = 0;    ///< by value
    std::int64_t differing = 0;  ///< unequal, and not within the tolerance
    std::int64_t nans_x = 0;
    std::int64_t nans_y = 0;
    std::int64_t nans_both = 0;
    std::int64_t infinities_x = 0;
    std::int64_t infinities_y = 0;
    Norms x;
    Norms y;
    Norms difference;
    /// The largest of unequal elements, the first in the order of rows among equals. NaNs are left out;
    /// infinities of ULPs.
    std::optional<Difference> largest_absolute;
    std::optional<Difference> largest_relative;
    std::optional<Difference> largest_ulps;
};

/// What the comparison of some elements found. Merged in the order of the elements, in whatever pieces.
struct ElementFindings : ElementSums {
    std::vector<Difference> first;  ///< the first of `differing` in the order of rows

    void merge(const ElementFindings& other, std::size_t most_listed);
};

/// Compares elements of two types.
class ElementComparison {
  public:
    ElementComparison(Type x, Type y, const Tolerance& tolerance, std::size_t most_listed);

    /// Compares elements [begin, end) of `block`, which is all there is at `x` and `y`, row after row. Writes
    /// 1 for differing elements and 0 for others at `mask` + index unless it is null.
    [[nodiscard]] ElementFindings compare(const std::byte* x, const std::byte* y, const Block& block,
                                          std::int64_t begin, std::int64_t end, std::uint8_t* mask) const;

  private:
    Type x_;
    Type y_;
    Tolerance tolerance_;
    std::size_t most_listed_;
};

}  // namespace gpumat
