#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/core/half.hpp"

namespace gpumat::formats::matrix_market {

static_assert(std::endian::native == std::endian::little, "eight digits are read as one little-endian word");

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

inline bool is_digit(char c) {
    return static_cast<unsigned char>(c - '0') < 10;
}

/// Whether all eight bytes are decimal digits.
inline bool are_eight_digits(std::uint64_t bytes) {
    return (((bytes + 0x4646'4646'4646'4646ULL) | (bytes - 0x3030'3030'3030'3030ULL)) &
            0x8080'8080'8080'8080ULL) == 0;
}

/// The value of eight digits, the first of them in the lowest byte: pairs, then fours, then all.
inline std::uint32_t value_of_eight_digits(std::uint64_t bytes) {
    bytes -= 0x3030'3030'3030'3030ULL;
    bytes = bytes * 10 + (bytes >> 8);
    const std::uint64_t even = (bytes & 0x0000'00ff'0000'00ffULL) * (100 + (1'000'000ULL << 32));
    const std::uint64_t odd = ((bytes >> 16) & 0x0000'00ff'0000'00ffULL) * (1 + (10'000ULL << 32));
    return static_cast<std::uint32_t>((even + odd) >> 32);
}

/// Reads digits into `value`, modulo 2⁶⁴, and returns where they end. 8 bytes past the end are readable.
inline const char* take_digits(const char* p, std::uint64_t& value) {
    for (;;) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, p, sizeof bytes);
        if (!are_eight_digits(bytes)) break;
        value = value * 100'000'000 + value_of_eight_digits(bytes);
        p += 8;
    }
    while (is_digit(*p)) value = value * 10 + static_cast<std::uint64_t>(*p++ - '0');
    return p;
}

const char* scan_special(const char* p, Decimal& decimal);
const char* scan_exponent(const char* p, Decimal& decimal);
void truncate_mantissa(Decimal& decimal);

/// Takes the number at `p` apart: [sign] digits [. digits] [e [sign] digits] with at least one digit before
/// or after the point, or [sign] inf, infinity or nan in any case. Returns where it ends, or null where
/// there is none.
inline const char* scan(const char* p, Decimal& decimal) {
    decimal.negative = *p == '-';
    if (*p == '-' || *p == '+') ++p;
    decimal.digits = p;
    std::uint64_t mantissa = 0;
    p = take_digits(p, mantissa);
    decimal.point = p;
    std::int64_t digits = p - decimal.digits;
    std::int64_t exponent = 0;
    if (*p == '.') {
        const char* fraction = ++p;
        p = take_digits(p, mantissa);
        exponent = fraction - p;
        digits -= exponent;
        decimal.plain = false;
    }
    if (digits == 0) return decimal.plain ? scan_special(decimal.digits, decimal) : nullptr;
    decimal.digits_end = p;
    decimal.mantissa = mantissa;
    decimal.exponent = exponent;
    if (digits > 19) truncate_mantissa(decimal);
    if (*p == 'e' || *p == 'E') return scan_exponent(p, decimal);
    return p;
}

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

/// Parses the number at `p` and moves `p` past it. The character after it is not looked at.
template <class T>
Fault parse_real(const char*& p, T& value) {
    Decimal decimal;
    const char* end = scan(p, decimal);
    if (end == nullptr) return Fault::malformed;
    p = end;
    return to_value(decimal, value);
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
        const char* end = scan(p, decimal);
        if (end == nullptr || !decimal.plain || decimal.kind != Decimal::Kind::finite)
            return Fault::malformed;
        p = end;
        return to_value(decimal, value);
    }
}

}  // namespace gpumat::formats::matrix_market
