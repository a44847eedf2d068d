#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace gpumat::formats::matrix_market {

static_assert(std::endian::native == std::endian::little, "eight digits are read as one little-endian word");

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

/// The eight digits of a number below 10⁸, each in its byte, the first in the lowest.
[[gnu::always_inline]] inline std::uint64_t split_digits(std::uint64_t number) {
    const std::uint64_t fours = number / 10'000 | (number % 10'000) << 32;
    const std::uint64_t hundreds = (fours * 10486) >> 20 & 0x0000'007f'0000'007fULL;  // fours / 100
    const std::uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    const std::uint64_t tens = (twos * 103) >> 10 & 0x000f'000f'000f'000fULL;  // twos / 10
    return tens | (twos - 10 * tens) << 8;
}

}  // namespace gpumat::formats::matrix_market
