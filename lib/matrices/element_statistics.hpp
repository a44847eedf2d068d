#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <concepts>
#include <limits>
#include <type_traits>

#include "lib/matrices/statistics.hpp"

namespace gpumat::elements {

/// The element in double precision, complex where it is.
template <class T>
auto widen(T value) {
    if constexpr (kIsComplex<T>) {
        return std::complex<double>(value);
    } else {
        return static_cast<double>(value);
    }
}

inline double magnitude(double value) {
    return std::abs(value);
}
inline double magnitude(std::complex<double> value) {
    return std::hypot(value.real(), value.imag());
}

inline bool is_nan(double value) {
    return std::isnan(value);
}
inline bool is_nan(std::complex<double> value) {
    return std::isnan(value.real()) || std::isnan(value.imag());
}

inline bool has_infinity(double value) {
    return std::isinf(value);
}
inline bool has_infinity(std::complex<double> value) {
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

inline ExactReal as_real(double value) {
    return value + 0.0;  // -0 becomes 0
}
template <std::integral T>
ExactReal as_real(T value) {
    return static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value);
}

inline ExactReal magnitude_of(double value) {
    return std::abs(value);
}
template <std::integral T>
ExactReal magnitude_of(T value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return value < 0 ? 0 - bits : bits;  // the magnitude of the smallest integer passes its own type
}

inline ExactReal larger(const ExactReal& x, const ExactReal& y) {
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

/// Magnitudes whose squares neither overflow nor underflow, nor does a sum of them.
constexpr double kPlainSquares = 1e140;

/// Sums and extremes of real elements side by side, of which some are gone through at a time. The largest
/// magnitude is beyond all bounds where an element is NaN or infinite.
template <class T>
struct Lanes {
    static constexpr std::int64_t kCount = 8;
    using Value = typename Extremes<T>::Value;

    double sum = 0;
    double squares = 0;
    double largest = 0;
    Value low;
    Value high;
    std::int64_t zeros = 0;

    /// `count` is at least that of the lanes.
    Lanes(const T* elements, std::int64_t count) : low(exact(elements[0])), high(low) {
        Lane<double> sums{};
        Lane<double> all_squares{};
        Lane<Value> lows;
        Lane<Value> highs;
        lows.fill(low);
        highs.fill(high);
        std::int64_t i = 0;
        for (; i + kCount <= count; i += kCount) {
            for (std::size_t lane = 0; lane < std::size_t{kCount}; ++lane) {
                const T element = elements[i + static_cast<std::int64_t>(lane)];
                const Value value = exact(element);
                const double size = magnitude(widen(element));
                sums[lane] += size;
                all_squares[lane] += size * size;
                lows[lane] = value < lows[lane] ? value : lows[lane];
                highs[lane] = value > highs[lane] ? value : highs[lane];
                zeros += size == 0 ? 1 : 0;
            }
        }
        for (std::size_t lane = 0; lane < std::size_t{kCount}; ++lane) {
            sum += sums[lane];
            squares += all_squares[lane];
            low = std::min(low, lows[lane]);
            high = std::max(high, highs[lane]);
        }
        for (; i < count; ++i) {
            const double size = magnitude(widen(elements[i]));
            sum += size;
            squares += size * size;
            low = std::min(low, exact(elements[i]));
            high = std::max(high, exact(elements[i]));
            zeros += size == 0 ? 1 : 0;
        }
        const double least = static_cast<double>(low);
        largest = sum < std::numeric_limits<double>::infinity()
                      ? std::max(std::abs(least), std::abs(static_cast<double>(high)))
                      : std::numeric_limits<double>::infinity();
    }

  private:
    template <class V>
    using Lane = std::array<V, std::size_t{kCount}>;
};

/// What some elements give, but for sums of rows and columns.
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

    /// The same of elements side by side; returns the sum of their magnitudes. Most are neither NaN nor
    /// infinite, and have squares as they are.
    double add_all(const T* elements, std::int64_t count) {
        if constexpr (!kIsComplex<T>) {
            if (count >= Lanes<T>::kCount) {
                const Lanes<T> all(elements, count);
                if (all.largest <= kPlainSquares && (all.largest >= 1 / kPlainSquares || all.largest == 0)) {
                    nonzeros += count - all.zeros;
                    extremes.add(all.low, all.high);
                    squares.add({all.largest, all.squares / (all.largest * all.largest)});
                    return all.sum;
                }
            }
        }
        double sum = 0;
        for (std::int64_t i = 0; i < count; ++i) sum += add(elements[i]);
        return sum;
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

}  // namespace gpumat::elements
