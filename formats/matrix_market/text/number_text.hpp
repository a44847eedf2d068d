#pragma once

#include <bit>
#include <charconv>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/matrix_market/numbers/digits.hpp"
#include "formats/matrix_market/numbers/shortest.hpp"

// Numbers as text.

namespace gpumat::formats::matrix_market {

/// "-2.2250738585072014e-308" and a blank or line feed.
inline constexpr std::size_t kLongestNumber = 25;

/// An index of 19 digits, and a blank.
inline constexpr std::size_t kLongestIndex = 20;

/// Writes an index, and up to eight bytes. No branch depends on how many digits it has, up to eight.
[[gnu::always_inline]] inline char* format_index(char* to, std::int64_t index) {
    if (index >= 100'000'000) return std::to_chars(to, to + kLongestIndex, index).ptr;
    constexpr std::uint64_t kZeros = 0x3030'3030'3030'3030ULL;
    const std::uint64_t digits = split_digits(static_cast<std::uint64_t>(index));
    const int zeros = std::countr_zero(digits | std::uint64_t{1} << 63) / 8;  // in front
    const std::uint64_t text = (digits | kZeros) >> (8 * zeros);
    std::memcpy(to, &text, sizeof text);
    return to + 8 - zeros;
}

template <class T>
char* format_number(char* to, T value) {
    if constexpr (std::integral<T>) {
        return std::to_chars(to, to + kLongestNumber, value).ptr;
    } else if constexpr (std::floating_point<T>) {
        return write_shortest(to, value);
    } else {
        return write_shortest(to, static_cast<float>(value));
    }
}

template <class T>
char* format_number(char* to, const std::complex<T>& value) {
    to = format_number(to, value.real());
    *to++ = ' ';
    return format_number(to, value.imag());
}

}  // namespace gpumat::formats::matrix_market
