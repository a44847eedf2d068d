#include "formats/matrix_market/numbers/shortest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "formats/matrix_market/numbers/digits.hpp"
#include "formats/matrix_market/numbers/powers.hpp"

namespace gpumat::formats::matrix_market {
namespace {

static_assert(std::endian::native == std::endian::little,
              "eight digits are written as one little-endian word");

/// floor(10^k / 2^e) + 1 with e such that it has 128 bits: above the power by less than a part in 2¹²⁷.
class PowersAbove {
  public:
    static constexpr int kLeast = -292;  // for the largest double
    static constexpr int kMost = 324;    // for the smallest

    PowersAbove() {
        for (int k = kLeast; k <= kMost; ++k) {
            Significand power = PowersOfFive::kTable[k];
            const bool above = PowersOfFive::kLeastRoundedUp <= k && k < 0;
            if (!above && ++power.low == 0) ++power.high;
            table_[static_cast<std::size_t>(k - kLeast)] = power;
        }
    }

    [[nodiscard]] const Significand& operator[](int k) const {
        return table_[static_cast<std::size_t>(k - kLeast)];
    }

    static const PowersAbove& get() {
        static const PowersAbove kPowers;
        return kPowers;
    }

  private:
    std::array<Significand, kMost - kLeast + 1> table_;
};

/// digits · 10^exponent
struct Digits {
    std::uint64_t digits;  ///< from 1 to 10¹⁷ − 1
    int exponent;
};

/// A number of 192 bits, of which only the upper 64 count and whether there is more.
struct Product {
    unsigned __int128 upper;
    std::uint64_t lower;

    /// The upper 64 bits, the last of them set where bits are cut off. A bit in the lowest place of the
    /// middle word comes from the power being too large.
    [[nodiscard]] std::uint64_t round_to_odd() const {
        return static_cast<std::uint64_t>(upper >> 64) |
               static_cast<std::uint64_t>(static_cast<std::uint64_t>(upper) > 1);
    }
};

[[gnu::always_inline]] inline Product multiply(const Significand& a, std::uint64_t b) {
    const auto low = static_cast<unsigned __int128>(a.low) * b;
    const auto high = static_cast<unsigned __int128>(a.high) * b;
    return {high + static_cast<std::uint64_t>(low >> 64), static_cast<std::uint64_t>(low)};
}

/// a · 2^shift with 0 < shift < 64.
Product shifted(const Significand& a, int shift) {
    const auto whole = static_cast<unsigned __int128>(a.high) << 64 | a.low;
    return {whole >> (64 - shift), a.low << shift};
}

Product operator+(const Product& a, const Product& b) {
    const std::uint64_t lower = a.lower + b.lower;
    return {a.upper + b.upper + (lower < a.lower ? 1 : 0), lower};
}

Product operator-(const Product& a, const Product& b) {
    return {a.upper - b.upper - (a.lower < b.lower ? 1 : 0), a.lower - b.lower};
}

/// The decimal of fewest digits between the middles to the neighbours of v = c · 2^q, and of those the
/// nearest to v: Schubfach (Raffaello Giulietti, "The Schubfach way to render doubles", 2020). The interval
/// is longer than one step of 10^k and no longer than ten, so that of the multiples of 10^(k+1) at most one
/// lies in it, and of those of 10^k one or both around v. `closer_below`: the neighbour below is half as far
/// as the one above.
[[gnu::always_inline]] inline Digits shortest(std::uint64_t c, int q, bool closer_below) {
    // floor(log10 2^q), or of 3/4 · 2^q, and then h so that the products have their point below bit 128.
    const int k = (q * 1262611 - (closer_below ? 524031 : 0)) >> 22;
    const int h = q + ((-k * 1741647) >> 19) + 1;
    const Significand& power = PowersAbove::get()[-k];

    // Four times v and the ends of the interval, by 10^k.
    const Product product = multiply(power, (4 * c) << h);
    const std::uint64_t value = product.round_to_odd();
    const std::uint64_t odd = c & 1;  // the ends themselves round to v where c is even
    const std::uint64_t lower = (product - shifted(power, closer_below ? h : h + 1)).round_to_odd() + odd;
    const std::uint64_t upper = (product + shifted(power, h + 1)).round_to_odd() - odd;

    const std::uint64_t below = value / 4;
    const std::uint64_t tens_below = below / 10 * 10;
    const bool has_tens_below = lower <= 4 * tens_below;
    const bool has_tens_above = 4 * tens_below + 40 <= upper;
    const bool has_below = lower <= 4 * below;
    const bool has_above = 4 * below + 4 <= upper;
    const std::uint64_t middle = 4 * below + 2;
    const bool nearer_above = value > middle || (value == middle && (below & 1) != 0);
    // Chosen without branches: which it is, is hard to foresee.
    const std::uint64_t one = below + (has_below != has_above ? has_above : nearer_above);
    const std::uint64_t ten = tens_below + (has_tens_above ? 10 : 0);
    return {has_tens_below != has_tens_above ? ten : one, k};
}

/// Sixteen characters, the first in the lowest byte.
using Characters = unsigned __int128;

/// The digits of a number as text, without zeros in front and with zeros behind, in registers: writing them
/// to memory and copying them from there to their places would wait for the memory.
struct Text {
    Characters digits;
    char seventeenth;
    int count;     ///< without zeros behind
    int exponent;  ///< of the last of them
};

void put(char* to, Characters characters) {
    std::memcpy(to, &characters, sizeof characters);
}

/// The parts of a double's 17 digits: 1, 8 and 8 of them; of a float's 9 digits the first two.
template <class T>
[[gnu::always_inline]] inline Text text_of(const Digits& number) {
    constexpr Characters kZeros =
        static_cast<Characters>(0x3030'3030'3030'3030ULL) << 64 | 0x3030'3030'3030'3030ULL;
    constexpr bool kLong = sizeof(T) == 8;
    const std::uint64_t front = kLong ? number.digits / 100'000'000 : number.digits;
    const std::uint64_t leading = front / 100'000'000;
    const std::uint64_t middle = split_digits(front % 100'000'000);
    const std::uint64_t last = kLong ? split_digits(number.digits % 100'000'000) : 0;
    const Characters sixteen = static_cast<Characters>(last) << 64 | middle;

    int zeros = std::countr_zero(middle) / 8;
    // The highest bit ends the count where all but the leading digit are zeros.
    if (middle == 0) zeros = 8 + std::countr_zero(last | std::uint64_t{1} << 63) / 8;
    int after = std::countl_zero(last) / 8;
    if (last == 0) after = 8 + std::countl_zero(middle) / 8;

    const bool all = leading != 0;
    return {(all ? sixteen << 8 | leading : sixteen >> (8 * zeros)) | kZeros,
            static_cast<char>('0' + (all ? last >> 56 : 0)), 16 + (all ? 1 : -zeros) - after,
            number.exponent + after - (kLong ? 0 : 8)};
}

/// The digits with a point behind `before` of them, 1 to 16. Returns the end.
[[gnu::always_inline]] inline char* put_with_point(char* to, const Text& text, int before) {
    put(to, text.digits);
    put(to + before + 1, text.digits >> (8 * (before - 1)) >> 8);
    to[before] = '.';
    to[17] = text.seventeenth;
    return to + text.count + 1;
}

/// d.ddde±xx, where `power` is that of the first digit.
[[gnu::always_inline]] inline char* put_scientific(char* to, const Text& text, int power) {
    char* end = put_with_point(to, text, 1);
    if (text.count == 1) end = to + 1;
    *end++ = 'e';
    *end++ = power < 0 ? '-' : '+';
    const int magnitude = power < 0 ? -power : power;
    if (magnitude >= 100) *end++ = static_cast<char>('0' + magnitude / 100);
    *end++ = static_cast<char>('0' + magnitude / 10 % 10);
    *end++ = static_cast<char>('0' + magnitude % 10);
    return end;
}

/// ddd000 of 16 digits at most, ddd.ddd, or 0.000ddd with up to 3 zeros, as the scientific form is shorter
/// otherwise.
[[gnu::always_inline]] inline char* put_fixed(char* to, const Text& text, int power) {
    if (text.exponent < 0 && power >= 0) return put_with_point(to, text, power + 1);
    if (text.exponent < 0) {
        std::copy_n("0.000000", 8, to);
        to += 1 - power;
    }
    put(to, text.digits);
    to[16] = text.seventeenth;
    return to + text.count + std::max(0, text.exponent);
}

template <class T>
char* write(char* to, T value) {
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    constexpr int kFractionBits = std::numeric_limits<T>::digits - 1;
    constexpr int kLeastExponent = std::numeric_limits<T>::min_exponent - 1 - kFractionBits;
    if (!std::isfinite(value)) {
        if (std::isnan(value)) return std::copy_n("nan", 3, to);
        if (value < 0) *to++ = '-';
        return std::copy_n("inf", 3, to);
    }
    const auto bits = std::bit_cast<Bits>(value);
    *to = '-';
    to += bits >> (8 * sizeof(T) - 1);
    const std::uint64_t fraction = bits & ((Bits{1} << kFractionBits) - 1);
    const int biased = static_cast<int>(bits << 1 >> (kFractionBits + 1));
    if (biased == 0 && fraction == 0) {
        *to = '0';
        return to + 1;
    }
    const std::uint64_t c = biased == 0 ? fraction : fraction | std::uint64_t{1} << kFractionBits;
    const int q = std::max(biased, 1) - 1 + kLeastExponent;
    const bool whole = -kFractionBits <= q && q <= 0 && (c & ((std::uint64_t{1} << -q) - 1)) == 0;
    const Digits number = whole ? Digits{c >> -q, 0} : shortest(c, q, fraction == 0 && biased > 1);
    const Text text = text_of<T>(number);
    const int power = text.exponent + text.count - 1;
    const int scientific = text.count + (text.count > 1 ? 1 : 0) + (power >= 100 || power <= -100 ? 5 : 4);
    const int fixed = text.exponent >= 0 ? text.count + text.exponent
                      : power >= 0       ? text.count + 1
                                         : 2 - text.exponent;
    if (fixed > scientific) return put_scientific(to, text, power);
    if (q > 0 && text.exponent > 0) {  // all digits of a large whole number, where zeros would do as well
        return std::to_chars(to, to + kNumberRoom, std::abs(value)).ptr;
    }
    return put_fixed(to, text, power);
}

}  // namespace

char* write_shortest(char* to, double value) {
    return write(to, value);
}

char* write_shortest(char* to, float value) {
    return write(to, value);
}

}  // namespace gpumat::formats::matrix_market
