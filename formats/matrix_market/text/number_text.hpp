#pragma once

#include <charconv>
#include <complex>
#include <concepts>
#include <cstddef>

#include "formats/matrix_market/numbers/shortest.hpp"

// Numbers as text.

namespace gpumat::formats::matrix_market {

/// "-2.2250738585072014e-308" and a blank or line feed.
inline constexpr std::size_t kLongestNumber = 25;

/// An index of 19 digits, and a blank.
inline constexpr std::size_t kLongestIndex = 20;

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
