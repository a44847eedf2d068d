#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__) && !defined(GPUMAT_MATRIX_MARKET_PORTABLE)
#include <emmintrin.h>
#define GPUMAT_MATRIX_MARKET_SSE2
#endif

#include "formats/matrix_market/numbers/digits.hpp"
#include "formats/matrix_market/numbers/scale.hpp"

namespace gpumat::formats::matrix_market {

struct IndexPair {
    std::uint64_t first;
    std::uint64_t second;
};

#ifdef GPUMAT_MATRIX_MARKET_SSE2

inline __m128i load_16(const char* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

/// A bit for each byte that is at most `most`, the first byte's the lowest.
inline std::uint64_t at_most(__m128i bytes, char most) {
    const __m128i smaller = _mm_min_epu8(bytes, _mm_set1_epi8(most));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(smaller, bytes)));
}

/// A bit for each byte that is `c`.
inline std::uint64_t equal_to(__m128i bytes, char c) {
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c))));
}

/// The place of the lowest bit of several.
inline std::uint64_t place_of(std::uint64_t bits) {
    return static_cast<std::uint64_t>(__builtin_ctzll(bits));
}

inline std::uint64_t lowest_bit(std::uint64_t bits) {
    return bits & -bits;
}

/// 16 bytes, of which the first `count`, 0 to 32, are `kByte` and the others zero.
template <char kByte>
__m128i first_bytes(std::uint64_t count) {
    static constexpr auto kBytes = [] {
        std::array<char, 48> bytes{};
        for (std::size_t i = 0; i < 32; ++i) bytes[i] = kByte;
        return bytes;
    }();
    return load_16(kBytes.data() + 32 - count);
}

/// The numbers that the first and the last eight of 16 digits from 0 to 9 make: pairs, then fours, then
/// eights.
struct Eights {
    std::uint64_t first;
    std::uint64_t last;
};

inline Eights join_16_digits(__m128i digits) {
    const __m128i twos = _mm_srli_epi16(_mm_mullo_epi16(digits, _mm_set1_epi16(10 * 256 + 1)), 8);
    const __m128i fours = _mm_madd_epi16(twos, _mm_set1_epi32(100 | 1 << 16));
    const __m128i eights = _mm_madd_epi16(_mm_packs_epi32(fours, fours), _mm_set1_epi32(10'000 | 1 << 16));
    const auto both = static_cast<std::uint64_t>(_mm_cvtsi128_si64(eights));
    return {both & 0xffff'ffff, both >> 32};
}

/// The numbers that the upper three bytes of either half make, digits from 0 to 9. The lowest are zero.
inline std::uint64_t join_3_and_3_digits(std::uint64_t digits) {
    constexpr std::uint64_t kLowest = 0x0000'00ff'0000'00ff;
    const std::uint64_t twos = digits * 10 + (digits >> 8);
    return (twos >> 8 & kLowest) * 10 + (digits >> 24 & kLowest);
}

/// Four characters, of which digits become 0 to 9.
inline std::uint64_t load_4_digits(const char* p) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, p, sizeof bytes);
    return bytes ^ 0x3030'3030U;
}

/// The short way that nearly every number takes: no plus sign, at most 19 digits, 15 of them before a point,
/// at most 3 in an exponent, a blank or the end of the line within 32 bytes, and a double that 128 bits
/// decide. Returns where the number ends, or null where the long way has to be taken, also for what is no
/// number.
///
/// No branch depends on the sign, the number of digits, or whether there is an exponent, which nobody
/// foresees; and the end is known from the blank alone, so that the processor begins with the next number
/// before it is done with this one. Reads up to 48 bytes, in the text's padding too.
[[gnu::always_inline]] inline const char* parse_short(const char* p, double& value) {
    const __m128i front = load_16(p);
    const __m128i back = load_16(p + 16);
    const __m128i zero = _mm_set1_epi8('0');
    // A bit for each of 32 bytes.
    const std::uint64_t blanks = at_most(front, ' ') | at_most(back, ' ') << 16;
    const std::uint64_t digits = at_most(_mm_sub_epi8(front, zero), 9) | at_most(_mm_sub_epi8(back, zero), 9)
                                                                             << 16;
    const __m128i small = _mm_set1_epi8(0x20);  // what makes letters small
    const std::uint64_t letters =
        equal_to(_mm_or_si128(front, small), 'e') | equal_to(_mm_or_si128(back, small), 'e') << 16;
    const std::uint64_t points = equal_to(front, '.');
    if (blanks == 0) return nullptr;

    // The number is [minus] digits [point digits] [letter [sign] digits] and then a blank. Bits of single
    // places, or none where there is nothing:
    const std::uint64_t blank = lowest_bit(blanks);
    const std::uint64_t stop = lowest_bit(blanks | letters);
    const auto negative = static_cast<std::uint64_t>(*p == '-');
    const std::uint64_t point = points & (stop - 1);
    const auto end = place_of(blanks);
    const auto letter = place_of(stop);
    const auto has_point = static_cast<std::uint64_t>(point != 0);
    const auto has_letter = static_cast<std::uint64_t>(stop != blank);
    const char after = p[letter + 1];
    const auto has_sign = has_letter & static_cast<std::uint64_t>(after == '-' || after == '+');

    // Nothing else may stand before the blank.
    const std::uint64_t known = negative | point | stop | (stop << 1 & -has_sign);
    if (((~digits ^ known) & (blank - 1)) != 0) return nullptr;
    if ((point & (point - 1)) != 0) return nullptr;

    const std::uint64_t whole = place_of(point | stop) - negative;  // digits before the point
    const std::uint64_t count = letter - negative - has_point;
    const std::uint64_t exponent_start = letter + has_letter + has_sign;
    const std::uint64_t exponent_count = end - exponent_start;
    if (count - 1 > 18 || exponent_count - has_letter > 2) return nullptr;

    // All digits without the point between them, and zeros behind where they are fewer than 19.
    const char* const first = p + negative;
    const __m128i before = first_bytes<'\xff'>(whole);
    const __m128i text =
        _mm_or_si128(_mm_and_si128(before, load_16(first)), _mm_andnot_si128(before, load_16(first + 1)));
    const Eights sixteen = join_16_digits(_mm_and_si128(text, first_bytes<'\x0f'>(count)));
    const std::uint64_t more = std::max<std::uint64_t>(count, 16) - 16;
    const std::uint64_t tail = load_4_digits(first + 16 + has_point) & ((std::uint64_t{1} << (8 * more)) - 1);
    const std::uint64_t written = load_4_digits(p + exponent_start) << (56 - 8 * exponent_count);
    const std::uint64_t joined = join_3_and_3_digits(tail << 8 | written << 8);
    const std::uint64_t mantissa =
        sixteen.first * 100'000'000'000 + sixteen.last * 1000 + (joined & 0xffff'ffff);

    const auto magnitude = static_cast<std::int64_t>(joined >> 32);
    const auto sign = -static_cast<std::int64_t>(after == '-');
    const std::int64_t exponent = (magnitude ^ sign) - sign + static_cast<std::int64_t>(whole) - 19;

    double positive = 0;
    if (!scale(mantissa, exponent, positive)) return nullptr;
    value = std::bit_cast<double>(std::bit_cast<std::uint64_t>(positive) | negative << 63);
    return p + end;
}

/// The usual indices: two numbers of 1 to 7 digits with one blank between them and a blank or the end of the
/// line behind them. Returns where the second ends, or null for all others.
[[gnu::always_inline]] inline const char* parse_short_indices(const char* p, IndexPair& pair) {
    const __m128i text = load_16(p);
    const std::uint64_t blanks = at_most(text, ' ');
    const std::uint64_t digits = at_most(_mm_sub_epi8(text, _mm_set1_epi8('0')), 9);
    const std::uint64_t later_blanks = blanks & (blanks - 1);
    if (later_blanks == 0) return nullptr;
    const std::uint64_t middle = place_of(blanks);
    const std::uint64_t end = place_of(later_blanks);
    const std::uint64_t count = end - middle - 1;
    const std::uint64_t others = ~digits & ~lowest_bit(blanks) & (lowest_bit(later_blanks) - 1);
    if (others != 0 || middle - 1 > 6 || count - 1 > 6) return nullptr;
    const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    if (!is_blank(p[middle]) || !(is_blank(p[end]) || p[end] == '\n' || p[end] == '\r')) return nullptr;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::memcpy(&first, p, sizeof first);
    std::memcpy(&second, p + middle + 1, sizeof second);
    first <<= 64 - 8 * middle;
    second <<= 64 - 8 * count;
    const __m128i both = _mm_set_epi64x(static_cast<std::int64_t>(second), static_cast<std::int64_t>(first));
    const Eights numbers = join_16_digits(_mm_and_si128(both, _mm_set1_epi8(0x0f)));
    pair = {numbers.first, numbers.last};
    return p + end;
}

#else

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
    if (!scale(mantissa, exponent, magnitude)) return nullptr;
    value = negative ? -magnitude : magnitude;
    return p;
}

inline const char* parse_short_indices(const char* /*p*/, IndexPair& /*pair*/) {
    return nullptr;
}

#endif

}  // namespace gpumat::formats::matrix_market
