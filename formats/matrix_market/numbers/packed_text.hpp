#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/sparse/value_texts.hpp"
#include "formats/matrix_market/numbers/short_number.hpp"

// The text of a number in the bits of an element, four for each character: a digit stands for itself, 15 ends
// the text. It is moved with the element and needs no memory beside it.

namespace gpumat::formats::matrix_market {

/// Characters that fit into 16 bytes and into 8, with the end.
inline constexpr std::size_t kMostPacked = 31;
inline constexpr std::size_t kMostPackedShort = 15;

/// So many bytes are written where a text is unpacked.
inline constexpr std::size_t kUnpackedRoom = 32;

#ifdef GPUMAT_MATRIX_MARKET_SSE2

/// The codes of 16 characters: their lower four bits, but for letters.
inline __m128i codes_of(__m128i text) {
    const __m128i low = _mm_and_si128(text, _mm_set1_epi8(0x0f));
    const __m128i small = _mm_and_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('e')), _mm_set1_epi8(0x5 ^ 0xa));
    const __m128i large = _mm_and_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('E')), _mm_set1_epi8(0x5 ^ 0xc));
    return _mm_xor_si128(low, _mm_or_si128(small, large));
}

/// A bit for each of 16 characters that no number has, but for infinities and NaNs.
inline std::uint64_t strangers_in(__m128i text) {
    const __m128i letters = _mm_cmpeq_epi8(_mm_or_si128(text, _mm_set1_epi8(0x20)), _mm_set1_epi8('e'));
    const __m128i others = _mm_or_si128(
        _mm_cmpeq_epi8(text, _mm_set1_epi8('.')),
        _mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('-')), _mm_cmpeq_epi8(text, _mm_set1_epi8('+'))));
    const std::uint64_t digits = at_most(_mm_sub_epi8(text, _mm_set1_epi8('0')), 9);
    return ~(digits | static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(letters, others)))) & 0xffff;
}

/// Two codes a byte, the first in its lower half, in the lower half of each of eight numbers.
inline __m128i joined_codes(__m128i codes) {
    return _mm_and_si128(_mm_or_si128(codes, _mm_srli_epi16(codes, 4)), _mm_set1_epi16(0x00ff));
}

/// The characters of 16 codes.
inline __m128i characters_of(__m128i codes) {
    const auto add_where = [&](char code, char difference) {
        return _mm_and_si128(_mm_cmpeq_epi8(codes, _mm_set1_epi8(code)), _mm_set1_epi8(difference));
    };
    const __m128i above = _mm_and_si128(_mm_cmpgt_epi8(codes, _mm_set1_epi8(9)), _mm_set1_epi8(0x10));
    const __m128i plain = _mm_sub_epi8(_mm_add_epi8(codes, _mm_set1_epi8('0')), above);
    return _mm_add_epi8(plain, _mm_or_si128(add_where(0xa, 'e' - 0x2a), add_where(0xc, 'E' - 0x2c)));
}

/// Packs a text of up to 31 characters; false where it is longer or has characters that are not packed. Reads
/// 32 bytes of it.
[[gnu::always_inline]] inline bool pack(const char* text, std::size_t length, TextBits& bits) {
    if (length - 1 >= kMostPacked) return false;
    const __m128i front = load_16(text);
    const __m128i back = load_16(text + 16);
    const std::uint64_t strangers = strangers_in(front) | strangers_in(back) << 16;
    if ((strangers & ((std::uint64_t{1} << length) - 1)) != 0) return false;
    const std::size_t in_front = length < 16 ? length : 16;
    const __m128i ends = _mm_set1_epi8(0x0f);
    const __m128i first = _mm_or_si128(_mm_and_si128(codes_of(front), first_bytes<'\x0f'>(in_front)),
                                       _mm_andnot_si128(first_bytes<'\x0f'>(in_front), ends));
    const __m128i last = _mm_or_si128(_mm_and_si128(codes_of(back), first_bytes<'\x0f'>(length - in_front)),
                                      _mm_andnot_si128(first_bytes<'\x0f'>(length - in_front), ends));
    const __m128i all = _mm_packus_epi16(joined_codes(first), joined_codes(last));
    std::memcpy(&bits, &all, sizeof bits);
    return true;
}

/// Writes the text and more, 32 bytes in all; its length.
[[gnu::always_inline]] inline std::size_t unpack(const TextBits& bits, char* to) {
    __m128i all;
    std::memcpy(&all, &bits, sizeof all);
    const __m128i half = _mm_set1_epi8(0x0f);
    const __m128i even = _mm_and_si128(all, half);
    const __m128i odd = _mm_and_si128(_mm_srli_epi16(all, 4), half);
    const __m128i first = _mm_unpacklo_epi8(even, odd);
    const __m128i last = _mm_unpackhi_epi8(even, odd);
    const __m128i front = characters_of(first);
    const __m128i back = characters_of(last);
    std::memcpy(to, &front, sizeof front);
    std::memcpy(to + sizeof front, &back, sizeof back);
    return place_of(equal_to(first, 0x0f) | equal_to(last, 0x0f) << 16);
}

#else

inline constexpr std::array<char, 16> kPackedCharacters = {'0', '1', '2', '3', '4', '5', '6', '7',
                                                           '8', '9', 'e', '+', 'E', '-', '.', '\0'};

/// Packs a text of up to 31 characters; false where it is longer or has characters that are not packed.
inline bool pack(const char* text, std::size_t length, TextBits& bits) {
    if (length - 1 >= kMostPacked) return false;
    std::array<std::uint64_t, 2> words = {~std::uint64_t{0}, ~std::uint64_t{0}};
    for (std::size_t at = 0; at < length; ++at) {
        const void* const found = std::memchr(kPackedCharacters.data(), text[at], 15);
        if (found == nullptr) return false;
        const auto code =
            static_cast<std::uint64_t>(static_cast<const char*>(found) - kPackedCharacters.data());
        words[at / 16] ^= (code ^ 15) << 4 * (at % 16);
    }
    bits = {words[0], words[1]};
    return true;
}

/// Writes the text and more, 32 bytes in all; its length.
inline std::size_t unpack(const TextBits& bits, char* to) {
    std::size_t length = 0;
    for (const std::uint64_t word : {bits.low, bits.high}) {
        for (int at = 0; at < 16; ++at, ++length) {
            const std::uint64_t code = word >> 4 * at & 15;
            if (code == 15) return length;
            to[length] = kPackedCharacters[code];
        }
    }
    return length;
}

#endif

}  // namespace gpumat::formats::matrix_market
