#pragma once

#include <bit>
#include <cstdint>

#include "formats/matrix_market/numbers/powers.hpp"

namespace gpumat::formats::matrix_market {

/// The double nearest to w · 10^q from the leading bits of w · 5^q: the method of Eisel and Lemire ("Number
/// Parsing at a Gigabyte per Second", 2021). False where the bits do not decide, or the value is too large.
[[gnu::noinline]] inline bool multiply_by_power(std::uint64_t w, std::int64_t q, double& value) {
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
    const Significand& power = PowersOfFive::kTable[q];
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

/// The same for the usual case: a normal result that the upper half of the product with the power's leading
/// 64 bits decides alone. False where multiply_by_power has to look closer.
///
/// The lower bits of the power would add less than one to that half; where the power is rounded up, it is too
/// large by less than one in the other half. Neither matters where the bits below the rounding bit are
/// neither all ones nor all zeros, and the number is no tie then.
[[gnu::always_inline]] inline bool scale_surely(std::uint64_t w, std::int64_t q, double& value) {
    constexpr std::uint64_t kSpareBits = 0x1ff;
    constexpr std::uint64_t kMostExponent = 0x7fc;  // one less than the field has, and room for a carry
    if (q < PowersOfFive::kLeast || q > PowersOfFive::kMost) return false;
    const int leading_zeros = std::countl_zero(w | 1);  // zero fails below
    const auto product = static_cast<unsigned __int128>(w << leading_zeros) * PowersOfFive::kTable[q].high;
    const auto upper = static_cast<std::uint64_t>(product >> 64);
    if (((upper + 1) & kSpareBits) <= 1) return false;
    const int top_bit = static_cast<int>(upper >> 63);
    const std::int64_t exponent = (217706 * q >> 16) + 63 + 1022 + top_bit - leading_zeros;
    if (static_cast<std::uint64_t>(exponent) > kMostExponent) return false;
    // The mantissa with its highest bit, which adds one to the exponent, and with what rounding carries into
    // it.
    const std::uint64_t mantissa = ((upper >> (top_bit + 9)) + 1) >> 1;
    value = std::bit_cast<double>((static_cast<std::uint64_t>(exponent) << 52) + mantissa);
    return true;
}

/// multiply_by_power by the shortest way.
[[gnu::always_inline]] inline bool scale(std::uint64_t w, std::int64_t q, double& value) {
    if (scale_surely(w, q, value)) return true;
    double found = 0;  // the address of `value` is not passed on, so that it stays in a register
    const bool decided = multiply_by_power(w, q, found);
    value = found;
    return decided;
}

}  // namespace gpumat::formats::matrix_market
