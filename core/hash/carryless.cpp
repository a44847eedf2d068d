#include "core/hash/carryless.hpp"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace gpumat {

#ifdef __x86_64__

namespace {

template <class Bits>
__attribute__((target("pclmul,sse2"))) RowProducts products_of(const RowPowers& powers,
                                                               const std::int32_t* columns,
                                                               const std::byte* values, std::size_t stride,
                                                               std::int64_t count) {
    const std::uint32_t* const low = powers.low.data();
    const std::uint32_t* const high = powers.high.data();
    const std::size_t mask = powers.low.size() - 1;
    const std::int64_t last = powers.cols - 1;
    __m128i sum = _mm_setzero_si128();
    for (std::int64_t i = 0; i < count; ++i) {
        const auto behind = static_cast<std::size_t>(last - columns[i]);
        Bits bits;
        std::memcpy(&bits, values + static_cast<std::size_t>(i) * stride, sizeof bits);
        const __m128i power =
            _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(low[behind & mask])),
                                 _mm_cvtsi64_si128(static_cast<long long>(high[behind >> powers.shift])), 0);
        const __m128i number = _mm_cvtsi64_si128(static_cast<long long>(std::uint64_t{bits}));
        sum = _mm_xor_si128(sum, _mm_clmulepi64_si128(power, number, 0));
    }
    std::array<std::uint64_t, 2> halves;
    std::memcpy(halves.data(), &sum, sizeof halves);
    return {.low = halves[0], .high = halves[1]};
}

}  // namespace

bool has_carryless_products() {
    static const bool has = __builtin_cpu_supports("pclmul") != 0;
    return has;
}

RowProducts row_products(const RowPowers& powers, const std::int32_t* columns, const std::byte* values,
                         std::size_t bytes, std::size_t stride, std::int64_t count) {
    switch (bytes) {
        case 1:
            return products_of<std::uint8_t>(powers, columns, values, stride, count);
        case 2:
            return products_of<std::uint16_t>(powers, columns, values, stride, count);
        case 4:
            return products_of<std::uint32_t>(powers, columns, values, stride, count);
        default:
            return products_of<std::uint64_t>(powers, columns, values, stride, count);
    }
}

#else

bool has_carryless_products() {
    return false;
}

RowProducts row_products(const RowPowers&, const std::int32_t*, const std::byte*, std::size_t, std::size_t,
                         std::int64_t) {
    return {};
}

#endif

}  // namespace gpumat
