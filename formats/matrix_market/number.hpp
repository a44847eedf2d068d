#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "formats/matrix_market/powers.hpp"
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

/// Eight bytes with the highest bit set in the first that is no digit, and perhaps in later ones.
inline std::uint64_t mark_non_digits(std::uint64_t bytes) {
    return ((bytes + 0x4646'4646'4646'4646ULL) | (bytes - 0x3030'3030'3030'3030ULL)) &
           0x8080'8080'8080'8080ULL;
}

/// The number that eight digits from 0 to 9 make, the first of them in the lowest byte: pairs, then fours,
/// then all.
inline std::uint64_t join_digits(std::uint64_t digits) {
    digits = digits * 10 + (digits >> 8);
    const std::uint64_t even = (digits & 0x0000'00ff'0000'00ffULL) * (100 + (1'000'000ULL << 32));
    const std::uint64_t odd = ((digits >> 16) & 0x0000'00ff'0000'00ffULL) * (1 + (10'000ULL << 32));
    return (even + odd) >> 32;
}

/// Reads digits into `value`, modulo 2⁶⁴, and returns where they end. 8 bytes past the end are readable.
[[gnu::always_inline]] inline const char* take_digits(const char* p, std::uint64_t& value) {
    constexpr std::array<std::uint64_t, 8> kPowersOfTen = {1,      10,      100,       1'000,
                                                           10'000, 100'000, 1'000'000, 10'000'000};
    for (;;) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, p, sizeof bytes);
        const std::uint64_t marks = mark_non_digits(bytes);
        bytes -= 0x3030'3030'3030'3030ULL;
        if (marks == 0) {
            value = value * 100'000'000 + join_digits(bytes);
            p += 8;
            continue;
        }
        // Fewer than eight: zeros go before them, so that no branch depends on how many there are.
        const auto count = static_cast<unsigned>(std::countr_zero(marks)) / 8;
        value = value * kPowersOfTen[count] + join_digits((bytes << (8 * (7 - count))) << 8);
        return p + count;
    }
}

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

/// The double nearest to w · 10^q from the leading bits of w · 5^q: the method of Eisel and Lemire ("Number
/// Parsing at a Gigabyte per Second", 2021). False where the bits do not decide, or the value is too large.
inline bool multiply_by_power(std::uint64_t w, std::int64_t q, double& value) {
    constexpr int kMantissaBits = 52;
    constexpr int kSmallestExponent = -1023;
    constexpr std::uint64_t kImplicitBit = std::uint64_t{1} << kMantissaBits;
    if (q < PowersOfFive::kLeast || w == 0) {
        value = 0;
        return true;
    }
    if (q > PowersOfFive::kMost) return false;

    const int leading_zeros = std::countl_zero(w);
    w <<= leading_zeros;
    const Significand& power = PowersOfFive::get()[q];
    const auto product = static_cast<unsigned __int128>(w) * power.high;
    auto upper = static_cast<std::uint64_t>(product >> 64);
    auto lower = static_cast<std::uint64_t>(product);
    constexpr std::uint64_t kSpareBits = 0x1ff;  // 64 − 52 − 3 bits below the rounding bit
    if ((upper & kSpareBits) == kSpareBits) {
        const auto more = static_cast<std::uint64_t>((static_cast<unsigned __int128>(w) * power.low) >> 64);
        lower += more;
        if (lower < more) ++upper;
        if (lower == ~std::uint64_t{0} && (q < -27 || q > 55)) return false;
    }

    // One bit more than the mantissa, for rounding.
    const int top_bit = static_cast<int>(upper >> 63);
    std::uint64_t mantissa = upper >> (top_bit + 9);
    // floor(q · log2(10)) + 63, by a multiple of 2⁻¹⁶ that is exact in this range.
    int exponent = static_cast<int>((217706 * q) >> 16) + 63 + top_bit - leading_zeros - kSmallestExponent;
    if (exponent <= 0) {  // subnormal, or zero; a carry makes it the smallest normal number
        const int shift = 1 - exponent;
        mantissa = shift >= 64 ? 0 : mantissa >> shift;
        value = std::bit_cast<double>((mantissa + (mantissa & 1)) >> 1);
        return true;
    }
    // Only these powers allow a product that lies exactly between two doubles; it goes to the even one.
    if (lower <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1 && mantissa << (top_bit + 9) == upper) {
        mantissa &= ~std::uint64_t{1};
    }
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa == 2 * kImplicitBit) {
        mantissa = kImplicitBit;
        ++exponent;
    }
    if (exponent >= 0x7ff) return false;
    value = std::bit_cast<double>((mantissa & (kImplicitBit - 1)) | static_cast<std::uint64_t>(exponent)
                                                                        << kMantissaBits);
    return true;
}

/// The short way that nearly every number takes: at most 19 digits, an exponent of few digits, and a double
/// that 128 bits decide. Returns where the number ends, or null where the long way has to be taken, also for
/// what is no number.
inline const char* parse_short(const char* p, double& value) {
    const bool negative = *p == '-';
    if (negative || *p == '+') ++p;
    const char* const start = p;
    std::uint64_t mantissa = 0;
    if (is_digit(p[0]) && p[1] == '.') {  // the usual form of many digits
        mantissa = static_cast<std::uint64_t>(*p++ - '0');
    } else {
        p = take_digits(p, mantissa);
    }
    std::int64_t digits = p - start;
    std::int64_t exponent = 0;
    if (*p == '.') {
        const char* const fraction = ++p;
        p = take_digits(p, mantissa);
        exponent = fraction - p;
        digits -= exponent;
    }
    if (digits == 0 || digits > 19) return nullptr;
    if (*p == 'e' || *p == 'E') {
        ++p;
        const bool below = *p == '-';
        if (below || *p == '+') ++p;
        std::int64_t written = 0;
        const char* const first = p;
        for (; is_digit(*p) && p - first <= 5; ++p) written = written * 10 + (*p - '0');
        if (p == first || p - first > 5) return nullptr;
        exponent += below ? -written : written;
    }
    double magnitude = 0;
    if (!multiply_by_power(mantissa, exponent, magnitude)) return nullptr;
    value = negative ? -magnitude : magnitude;
    return p;
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

/// Parses the number at `p` and moves `p` past it. The character after it is not looked at.
template <class T>
Fault parse_real(const char*& p, T& value) {
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
    Decimal decimal;
    const char* const end = scan(p, decimal);
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
        const char* const end = scan(p, decimal);
        if (end == nullptr || !decimal.plain || decimal.kind != Decimal::Kind::finite)
            return Fault::malformed;
        p = end;
        return to_value(decimal, value);
    }
}

}  // namespace gpumat::formats::matrix_market
