#include "formats/matrix_market/powers.hpp"

#include <bit>

namespace gpumat::formats::matrix_market {
namespace {

/// An integer below 2⁸³², more than twice 5³⁴². The lowest word comes first.
struct Wide {
    static constexpr std::size_t kWords = 13;
    std::array<std::uint64_t, kWords> word{};

    void multiply_by_five() {
        std::uint64_t carry = 0;
        for (std::uint64_t& w : word) {
            const auto product = static_cast<unsigned __int128>(w) * 5 + carry;
            w = static_cast<std::uint64_t>(product);
            carry = static_cast<std::uint64_t>(product >> 64);
        }
    }

    void multiply_by_two() {
        for (std::size_t i = kWords - 1; i > 0; --i) word[i] = word[i] << 1 | word[i - 1] >> 63;
        word[0] <<= 1;
    }

    [[nodiscard]] bool at_least(const Wide& other) const {
        for (std::size_t i = kWords; i-- > 0;) {
            if (word[i] != other.word[i]) return word[i] > other.word[i];
        }
        return true;
    }

    void subtract(const Wide& other) {
        std::uint64_t borrow = 0;
        for (std::size_t i = 0; i < kWords; ++i) {
            const auto difference = static_cast<unsigned __int128>(word[i]) - other.word[i] - borrow;
            word[i] = static_cast<std::uint64_t>(difference);
            borrow = static_cast<std::uint64_t>(difference >> 64) & 1;
        }
    }

    [[nodiscard]] std::size_t bits() const {
        std::size_t i = kWords;
        while (word[i - 1] == 0) --i;
        return 64 * i - static_cast<std::size_t>(std::countl_zero(word[i - 1]));
    }

    [[nodiscard]] std::uint64_t bit(std::size_t i) const { return word[i / 64] >> (i % 64) & 1; }
};

void append_bit(Significand& bits, std::uint64_t bit) {
    bits.high = bits.high << 1 | bits.low >> 63;
    bits.low = bits.low << 1 | bit;
}

/// The 128 leading bits of `value`, with zeros behind a shorter one.
Significand leading_bits(const Wide& value) {
    Significand result;
    const std::size_t bits = value.bits();
    for (std::size_t i = 1; i <= 128; ++i) append_bit(result, i <= bits ? value.bit(bits - i) : 0);
    return result;
}

/// The 128 leading bits of 1 / `value`, by long division of the power of two just above `value`.
Significand leading_bits_of_reciprocal(const Wide& value) {
    Wide rest;
    const std::size_t bits = value.bits();
    rest.word[bits / 64] = std::uint64_t{1} << (bits % 64);
    Significand result;
    for (int i = 0; i < 128; ++i) {
        const bool fits = rest.at_least(value);
        if (fits) rest.subtract(value);
        append_bit(result, fits ? 1 : 0);
        rest.multiply_by_two();
    }
    return result;
}

}  // namespace

PowersOfFive::PowersOfFive() {
    Wide power;
    power.word[0] = 1;
    for (std::int64_t q = 0; q <= -kLeast; ++q, power.multiply_by_five()) {
        if (q <= kMost) table_[static_cast<std::size_t>(q - kLeast)] = leading_bits(power);
        if (q == 0) continue;
        Significand reciprocal = leading_bits_of_reciprocal(power);
        if (q <= -kLeastRoundedUp && ++reciprocal.low == 0) ++reciprocal.high;
        table_[static_cast<std::size_t>(-q - kLeast)] = reciprocal;
    }
}

}  // namespace gpumat::formats::matrix_market
