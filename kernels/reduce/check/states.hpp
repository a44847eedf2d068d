#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/numbers/two_sum.hpp"
#include "kernels/check/elements.hpp"
#include "kernels/reduce/check/walk.hpp"

// What the check of a reduction keeps of each result's elements, to compare with in the end. A scale is a
// power of two by which elements are multiplied where the range of double would not hold what they add up to.

namespace gpumat::reduce::check {

inline constexpr double kRoundoff = 0x1p-53;
inline constexpr double kTiniest = std::numeric_limits<double>::denorm_min();
inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
inline constexpr double kLargest = std::numeric_limits<double>::max();
// What is scaled by these is far from both ends of the range of double, and so are its squares.
inline constexpr double kUp = 0x1p600;
inline constexpr double kDown = 0x1p-600;
// Beyond these, what a part adds up may pass the range of double in more parts than there can be.
inline constexpr double kLargeSum = 0x1p990;
inline constexpr double kLargeSquares = 0x1p900;
inline constexpr double kSmallSquares = 0x1p-900;

__extension__ using Int128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;

template <class T>
double real_of(T value) {
    return static_cast<double>(value);
}
template <class R>
double real_of(std::complex<R> value) {
    return static_cast<double>(value.real());
}
template <class T>
double imag_of(T) {
    return 0;
}
template <class R>
double imag_of(std::complex<R> value) {
    return static_cast<double>(value.imag());
}

/// A number in twice the precision of double: high + low, |low| ≤ ulp(high)/2 (after Dekker and Knuth).
struct Twice {
    double high = 0;
    double low = 0;

    void add(double x) {
        const double sum = high + x;
        const double rest = low + rounded_off(high, x, sum);
        high = sum + rest;
        low = rest - (high - sum);
    }
    void add(const Twice& other) {
        add(other.high);
        add(other.low);
    }
    [[nodiscard]] Twice times(double power_of_two) const { return {high * power_of_two, low * power_of_two}; }
};

/// Σx of a part, and Σ|x|, which is not finite where an element is not; where scaled, of finite elements.
template <class T>
struct SumState {
    Twice re;
    Twice im;
    double re_size = 0;
    double im_size = 0;

    void add(T value, double scale) {
        add_part(real_of(value), scale, re, re_size);
        if constexpr (kIsComplex<T>) add_part(imag_of(value), scale, im, im_size);
    }
    [[nodiscard]] SumState scaled_down() const {
        return {re.times(kDown), im.times(kDown), re_size * kDown, im_size * kDown};
    }
    [[nodiscard]] bool is_large() const { return !(re_size < kLargeSum && im_size < kLargeSum); }
    void merge(const SumState& other) {
        re.add(other.re);
        im.add(other.im);
        re_size += other.re_size;
        im_size += other.im_size;
    }

  private:
    static void add_part(double x, double scale, Twice& sum, double& size) {
        if (scale != 1 && !std::isfinite(x)) return;
        sum.add(x * scale);
        size += std::fabs(x) * scale;
    }
};

/// Σx of the elements that are not finite, by the rules of IEEE 754; 0 where there are none.
template <class T>
struct SpecialState {
    double re = 0;
    double im = 0;

    void add(T value, double) {
        if (!std::isfinite(real_of(value))) re += real_of(value);
        if (!std::isfinite(imag_of(value))) im += imag_of(value);
    }
    void merge(const SpecialState& other) {
        re += other.re;
        im += other.im;
    }
};

template <class T>
struct WholeSumState {
    Int128 sum = 0;
    Int128 below = 0;  ///< of those below 0

    void add(T value, double) {
        sum += value;
        if (value < T{}) below += value;
    }
    /// Of at most kAtOnce elements: of narrow ones in narrower sums, several in a register.
    static WholeSumState of(const T* from, std::int64_t count) requires(sizeof(T) <= 4) {
        using Sum = std::conditional_t<sizeof(T) == 1, std::int32_t, std::int64_t>;
        static_assert(kAtOnce <= std::numeric_limits<Sum>::max() / std::numeric_limits<T>::max());
        Sum sum = 0;
        Sum below = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            const auto x = static_cast<Sum>(from[i]);
            sum += x;
            below += std::min(x, Sum{0});
        }
        return {sum, below};
    }
    void merge(const WholeSumState& other) {
        sum += other.sum;
        below += other.below;
    }
    [[nodiscard]] Int128 size() const { return sum - 2 * below; }  ///< Σ|x|
};

/// Σx² of all parts.
template <class T>
struct SquaresState {
    Twice sum;
    double special = 0;  ///< infinity or NaN where an element is

    void add(T value, double scale) {
        add_square(real_of(value) * scale);
        if constexpr (kIsComplex<T>) add_square(imag_of(value) * scale);
    }
    [[nodiscard]] SquaresState scaled_down() const { return {sum.times(kDown).times(kDown), special}; }
    [[nodiscard]] bool is_large() const { return !(sum.high < kLargeSquares); }
    [[nodiscard]] bool is_small() const { return sum.high < kSmallSquares; }
    void merge(const SquaresState& other) {
        sum.add(other.sum);
        special += other.special;
    }

  private:
    void add_square(double x) {
        const double square = x * x;
        sum.add(square);
        if (!std::isfinite(x)) special += std::fabs(x);
        // The squares of narrower types are exact.
        if constexpr (sizeof(T) >= 8 && !std::is_same_v<T, std::complex<float>>)
            sum.add(__builtin_fma(x, x, -square));
    }
};

/// Σx² of integers, |x| = a·2^32 + b: Σa², Σab and Σb², exactly.
template <class T>
struct WholeSquaresState {
    Unsigned128 aa = 0;
    Unsigned128 ab = 0;
    Unsigned128 bb = 0;

    void add(T value, double) {
        auto size = static_cast<std::uint64_t>(value);
        if (value < T{}) size = 0 - size;
        const std::uint64_t a = size >> 32U;
        const std::uint64_t b = size & 0xffffffffU;
        aa += Unsigned128{a} * a;
        ab += Unsigned128{a} * b;
        bb += Unsigned128{b} * b;
    }
    void merge(const WholeSquaresState& other) {
        aa += other.aa;
        ab += other.ab;
        bb += other.bb;
    }
};

/// Extremes and counts; `Value` is what elements are compared as.
template <class T>
struct OrderState {
    using Value = std::conditional_t<std::is_integral_v<T>, T, double>;
    Value least{};
    Value largest{};
    std::int64_t count = 0;  ///< that are not NaN
    std::int64_t nans = 0;

    void add(T value, double) {
        Value x{};
        if constexpr (kIsComplex<T>) {
            x = modulus_of(value);
        } else {
            x = static_cast<Value>(value);
        }
        if constexpr (!std::is_integral_v<T>) {
            if (std::isnan(x)) {
                ++nans;
                return;
            }
        }
        least = count == 0 || x < least ? x : least;
        largest = count == 0 || x > largest ? x : largest;
        ++count;
    }
    void merge(const OrderState& other) {
        if (other.count > 0) {
            least = count == 0 || other.least < least ? other.least : least;
            largest = count == 0 || other.largest > largest ? other.largest : largest;
        }
        count += other.count;
        nans += other.nans;
    }

  private:
    static double modulus_of(T value) {
        const double re = real_of(value);
        const double im = imag_of(value);
        return std::isnan(re) || std::isnan(im) ? std::numeric_limits<double>::quiet_NaN()
                                                : std::hypot(re, im);
    }
};

}  // namespace gpumat::reduce::check
