#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/numbers/half.hpp"
#include "formats/matrix_market/numbers/short_number.hpp"

namespace gpumat::formats::matrix_market {

/// Why a token is no value of the type that is asked for.
enum class Fault : std::uint8_t {
    none,
    malformed,  ///< not a number of the file's field
    fraction,   ///< not an integer, and the type asked for is one
    range       ///< beyond what the type asked for can hold
};

/// A number taken apart: ±mantissa · 10^exponent, where `mantissa` has the first 19 significant digits.
/// Where there are more, `truncated` is set and the value lies between mantissa and mantissa + 1.
struct Decimal {
    enum class Kind : std::uint8_t { finite, infinity, nan };

    Kind kind = Kind::finite;
    bool negative = false;
    bool truncated = false;
    bool plain = true;  ///< digits only, without a point or an exponent
    std::uint64_t mantissa = 0;
    std::int64_t exponent = 0;
    std::int64_t written_exponent = 0;  ///< after the letter e
    const char* digits = nullptr;       ///< the first digit or the point
    const char* point = nullptr;        ///< where the point is or would be
    const char* digits_end = nullptr;   ///< past the last digit or the point
};

/// Takes the number at `p` apart: [sign] digits [. digits] [e [sign] digits] with at least one digit before
/// or after the point, or [sign] inf, infinity or nan in any case. Returns where it ends, or null where
/// there is none.
const char* scan(const char* p, Decimal& decimal);

/// The nearest values, ties to even; a value beyond the range gives false. What is too small for the
/// smallest subnormal number rounds to zero or to that number.
bool to_float(const Decimal& decimal, double& value);
bool to_float(const Decimal& decimal, float& value);
bool to_float(const Decimal& decimal, Half& value);
bool to_float(const Decimal& decimal, BFloat16& value);

/// The magnitude as an integer, exactly.
Fault to_magnitude(const Decimal& decimal, std::uint64_t& magnitude);

template <std::integral T>
Fault apply_sign(std::uint64_t magnitude, bool negative, T& value) {
    const auto highest = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    const std::uint64_t most = negative ? (std::signed_integral<T> ? highest + 1 : 0) : highest;
    if (magnitude > most) return Fault::range;
    value = static_cast<T>(negative ? 0 - magnitude : magnitude);
    return Fault::none;
}

/// The decimal as a T, exactly or rounded once.
template <class T>
Fault to_value(const Decimal& decimal, T& value) {
    if constexpr (std::integral<T>) {
        std::uint64_t magnitude = 0;
        const Fault fault = to_magnitude(decimal, magnitude);
        return fault == Fault::none ? apply_sign(magnitude, decimal.negative, value) : fault;
    } else {
        return to_float(decimal, value) ? Fault::none : Fault::range;
    }
}

/// A double that rounds to a T as every number whose nearest double it is does: not a tie, and in range.
template <class T>
bool rounds_surely(double value, T& rounded) {
    rounded = T(value);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    if (bits << 1 == 0) return true;
    const T below(std::bit_cast<double>(bits - 1));
    const T above(std::bit_cast<double>(bits + 1));
    // The same bits, so that zeros of either sign differ.  NOLINTNEXTLINE
    return std::memcmp(&below, &above, sizeof below) == 0 && std::isfinite(static_cast<float>(rounded));
}

/// The long way, for any number. Returns where it ends, or `p` where it is none.
template <class T>
[[gnu::noinline]] const char* parse_long(const char* p, T& value, Fault& fault) {
    Decimal decimal;
    const char* const end = scan(p, decimal);
    fault = end == nullptr ? Fault::malformed : to_value(decimal, value);
    return end == nullptr ? p : end;
}

/// Parses the number at `p` and moves `p` past it. The character after it is not looked at.
template <class T>
[[gnu::always_inline]] inline Fault parse_real(const char*& p, T& value) {
    if constexpr (!std::integral<T>) {
        double wide = 0;
        if (const char* const end = parse_short(p, wide); end != nullptr) {
            if constexpr (std::is_same_v<T, double>) {
                value = wide;
                p = end;
                return Fault::none;
            } else if (rounds_surely(wide, value)) {
                p = end;
                return Fault::none;
            }
        }
    }
    Fault fault = Fault::none;
    T found{};
    p = parse_long(p, found, fault);
    value = found;
    return fault;
}

/// The same, and no copy of it in the caller. Returns where the number ends.
template <class T>
[[gnu::noinline]] const char* parse_real_apart(const char* p, T& value, Fault& fault) {
    fault = parse_real(p, value);
    return p;
}

/// Parses digits with a sign at `p` and moves `p` past them. Integers never pass through a double.
template <class T>
Fault parse_integer(const char*& p, T& value) {
    if constexpr (std::integral<T>) {
        const bool negative = *p == '-';
        const char* digits = p + (*p == '-' || *p == '+' ? 1 : 0);
        std::uint64_t magnitude = 0;
        const char* end = take_digits(digits, magnitude);
        if (end == digits) return Fault::malformed;
        p = end;
        if (end - digits < 20) return apply_sign(magnitude, negative, value);
        Decimal decimal;  // 20 digits or more may pass 2⁶⁴, unless they are leading zeros
        scan(digits - (negative ? 1 : 0), decimal);
        return to_value(decimal, value);
    } else {
        Decimal decimal;
        const char* const end = scan(p, decimal);
        if (end == nullptr || !decimal.plain || decimal.kind != Decimal::Kind::finite)
            return Fault::malformed;
        p = end;
        return to_value(decimal, value);
    }
}

}  // namespace gpumat::formats::matrix_market
