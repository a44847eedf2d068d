#include "core/numbers/half.hpp"

namespace gpumat {
namespace {

/// Rounds a double to a binary format of 16 bits in one step, so that no double rounding occurs.
/// `mantissa_bits` excludes the implicit bit; `exponent_bits` fixes bias and range.
std::uint16_t round_to_16_bits(double value, int exponent_bits, int mantissa_bits) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 63) << 15);
    const std::uint64_t magnitude = bits & 0x7fff'ffff'ffff'ffffULL;
    const auto infinity = static_cast<std::uint16_t>(((1U << exponent_bits) - 1U) << mantissa_bits);

    if (magnitude > 0x7ff0'0000'0000'0000ULL) {  // NaN: keep it quiet
        return static_cast<std::uint16_t>(sign | infinity | (1U << (mantissa_bits - 1)));
    }
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(magnitude >> 52) - 1023;
    if (exponent > bias) return static_cast<std::uint16_t>(sign | infinity);

    // The significand with its implicit bit, and how many of its low bits the target drops. Below the
    // smallest normal exponent the target's spacing stays constant, so more bits are dropped.
    const int smallest = 1 - bias;
    const int dropped = 52 - mantissa_bits + (exponent < smallest ? smallest - exponent : 0);
    if (dropped > 54 || (magnitude >> 52) == 0) return sign;  // under half of the smallest subnormal
    const std::uint64_t significand = (magnitude & 0x000f'ffff'ffff'ffffULL) | 0x0010'0000'0000'0000ULL;
    std::uint64_t kept = dropped < 64 ? significand >> dropped : 0;
    const std::uint64_t rest = significand & ((1ULL << dropped) - 1);
    const std::uint64_t half = 1ULL << (dropped - 1);
    if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;

    // The implicit bit carries into the exponent field, and so does a round-up to the next power of two
    // (at the top it gives infinity).
    const std::uint64_t base =
        exponent < smallest ? 0 : static_cast<std::uint64_t>(exponent + bias - 1) << mantissa_bits;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(base + kept));
}

}  // namespace

Half::Half(double value) : bits(round_to_16_bits(value, 5, 10)) {}

Half::operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fU;
    const std::uint32_t mantissa = bits & 0x3ffU;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f80'0000U | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal or zero, exact
    return sign != 0 ? -magnitude : magnitude;
}

BFloat16::BFloat16(double value) : bits(round_to_16_bits(value, 8, 7)) {}

}  // namespace gpumat
