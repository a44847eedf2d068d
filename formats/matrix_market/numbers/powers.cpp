#include "formats/matrix_market/numbers/powers.hpp"

#include <bit>

namespace gpumat::formats::matrix_market {
namespace {

/// An integer below 2⁹⁶⁰. The lowest word comes first.
struct Wide {
    static constexpr std::size_t kWords = 15;
    std::array<std::uint64_t, kWords> word{};

    constexpr void multiply_by_five() {
        std::uint64_t carry = 0;
        for (std::uint64_t& w : word) {
            const auto product = static_cast<unsigned __int128>(w) * 5 + carry;
            w = static_cast<std::uint64_t>(product);
            carry = static_cast<std::uint64_t>(product >> 64);
        }
    }

    /// Rounds down. As often as it is repeated, the quotient is the one that one division gives.
    constexpr void divide_by_five() {
        std::uint64_t rest = 0;
        for (std::size_t i = kWords; i-- > 0;) {
            const auto dividend = static_cast<unsigned __int128>(rest) << 64 | word[i];
            word[i] = static_cast<std::uint64_t>(dividend / 5);
            rest = static_cast<std::uint64_t>(dividend % 5);
        }
    }

    /// The 128 leading bits, with zeros behind a shorter number.
    [[nodiscard]] constexpr Significand leading_bits() const {
        std::size_t top = kWords - 1;
        while (word[top] == 0) --top;
        const auto at = [&](std::size_t below) { return below <= top ? word[top - below] : 0; };
        const int shift = std::countl_zero(word[top]);
        if (shift == 0) return {at(0), at(1)};
        return {at(0) << shift | at(1) >> (64 - shift), at(1) << shift | at(2) >> (64 - shift)};
    }
};

}  // namespace

constexpr PowersOfFive::PowersOfFive() {
    Wide power;
    power.word[0] = 1;
    // 2⁹⁵⁹ / 5³⁴², of which 5³⁴² takes 795 bits, has 128 bits and more.
    Wide reciprocal;
    reciprocal.word[Wide::kWords - 1] = std::uint64_t{1} << 63;
    for (std::int64_t q = 0; q <= -kLeast; ++q) {
        if (q <= kMost) table_[static_cast<std::size_t>(q - kLeast)] = power.leading_bits();
        if (q > 0) {
            Significand bits = reciprocal.leading_bits();
            if (q <= -kLeastRoundedUp && ++bits.low == 0) ++bits.high;
            table_[static_cast<std::size_t>(-q - kLeast)] = bits;
        }
        power.multiply_by_five();
        reciprocal.divide_by_five();
    }
}

constinit const PowersOfFive PowersOfFive::kTable;

}  // namespace gpumat::formats::matrix_market
