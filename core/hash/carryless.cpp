#include "core/hash/carryless.hpp"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace gpumat {

#ifdef __x86_64__

namespace {

#define GPUMAT_CARRYLESS __attribute__((target("pclmul,sse2")))

/// Modulo 2³² − 1, or that itself for 0.
inline std::uint64_t turned_places(std::uint64_t elements) {
    elements = (elements & 0xffffffff) + (elements >> 32);
    return (elements & 0xffffffff) + (elements >> 32);
}

template <class Bits>
GPUMAT_CARRYLESS inline __m128i number_at(const std::byte* at) {
    Bits bits;
    std::memcpy(&bits, at, sizeof bits);
    return _mm_cvtsi64_si128(static_cast<long long>(std::uint64_t{bits}));
}

GPUMAT_CARRYLESS inline __m128i product_of(const PlacePowers& powers, __m128i number, std::uint64_t behind) {
    const std::uint64_t turned = turned_places(behind);
    const std::uint64_t mask = (std::uint64_t{1} << powers.shift) - 1;
    const __m128i power = _mm_clmulepi64_si128(
        _mm_cvtsi64_si128(static_cast<long long>(powers.low.data()[turned & mask])),
        _mm_cvtsi64_si128(static_cast<long long>(powers.high.data()[turned >> powers.shift])), 0);
    return _mm_clmulepi64_si128(power, number, 0);
}

GPUMAT_CARRYLESS inline void add_to(Products& sum, __m128i found) {
    std::array<std::uint64_t, 2> halves;
    std::memcpy(halves.data(), &found, sizeof halves);
    sum.add({.low = halves[0], .high = halves[1]});
}

template <class Bits>
GPUMAT_CARRYLESS void add_row(const PlacePowers& powers, std::uint64_t behind, const std::int32_t* columns,
                              const std::byte* numbers, std::size_t stride, std::int64_t count,
                              Products& sum) {
    __m128i found = _mm_setzero_si128();
    for (std::int64_t i = 0; i < count; ++i) {
        const __m128i number = number_at<Bits>(numbers + static_cast<std::size_t>(i) * stride);
        found =
            _mm_xor_si128(found, product_of(powers, number, behind - static_cast<std::uint64_t>(columns[i])));
    }
    add_to(sum, found);
}

template <class Bits>
GPUMAT_CARRYLESS void add_placed(const PlacePowers& powers, const PlacedNumbers& entries, Products& given,
                                 Products& transposed) {
    const auto rows = static_cast<std::uint64_t>(entries.rows_of_matrix);
    const auto cols = static_cast<std::uint64_t>(entries.cols_of_matrix);
    __m128i sum = _mm_setzero_si128();
    __m128i across = _mm_setzero_si128();
    for (std::int64_t i = 0; i < entries.count; ++i) {
        const __m128i number = number_at<Bits>(entries.numbers + static_cast<std::size_t>(i) * sizeof(Bits));
        const std::uint64_t below = rows - 1 - static_cast<std::uint64_t>(entries.rows[i]);
        const std::uint64_t right = cols - 1 - static_cast<std::uint64_t>(entries.columns[i]);
        sum = _mm_xor_si128(sum, product_of(powers, number, below * cols + right));
        across = _mm_xor_si128(across, product_of(powers, number, right * rows + below));
    }
    add_to(given, sum);
    add_to(transposed, across);
}

#undef GPUMAT_CARRYLESS

/// Calls `function` with a number of so many bytes.
template <class Function>
void visit_bits(std::size_t bytes, const Function& function) {
    switch (bytes) {
        case 1:
            return function(std::uint8_t{});
        case 2:
            return function(std::uint16_t{});
        case 4:
            return function(std::uint32_t{});
        default:
            return function(std::uint64_t{});
    }
}

}  // namespace

bool has_carryless_products() {
    static const bool has = __builtin_cpu_supports("pclmul") != 0;
    return has;
}

void add_row_products(const PlacePowers& powers, std::uint64_t behind, const std::int32_t* columns,
                      const std::byte* numbers, std::size_t bytes, std::size_t stride, std::int64_t count,
                      Products& sum) {
    visit_bits(bytes, [&]<class Bits>(Bits) {
        add_row<Bits>(powers, behind, columns, numbers, stride, count, sum);
    });
}

void add_products(const PlacePowers& powers, const PlacedNumbers& entries, Products& given,
                  Products& transposed) {
    visit_bits(entries.bytes,
               [&]<class Bits>(Bits) { add_placed<Bits>(powers, entries, given, transposed); });
}

#else

bool has_carryless_products() {
    return false;
}

void add_row_products(const PlacePowers&, std::uint64_t, const std::int32_t*, const std::byte*, std::size_t,
                      std::size_t, std::int64_t, Products&) {}

void add_products(const PlacePowers&, const PlacedNumbers&, Products&, Products&) {}

#endif

}  // namespace gpumat
