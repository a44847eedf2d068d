#pragma once

#include <bit>
#include <cstdint>

namespace gpumat {

/// IEEE 754 binary16, stored as its bits. Conversions round to nearest, ties to even; a value beyond the
/// largest finite half becomes infinity, NaN stays NaN.
struct Half {
    std::uint16_t bits = 0;

    Half() = default;
    explicit Half(double value);
    explicit operator float() const;
    explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }

    static Half from_bits(std::uint16_t bits) {
        Half half;
        half.bits = bits;
        return half;
    }
};

/// bfloat16: the upper half of a binary32, stored as its bits. Rounds like `Half`.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    explicit BFloat16(double value);
    explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
    explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }

    static BFloat16 from_bits(std::uint16_t bits) {
        BFloat16 value;
        value.bits = bits;
        return value;
    }
};

}  // namespace gpumat
