#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/numbers/type.hpp"

// How many steps of a type lie between two numbers (ULPs).

namespace gpumat::comparison {

// Every element of every type, 64-bit integers too, is a long double, exactly.
using Wide = long double;
static_assert(std::numeric_limits<Wide>::digits >= 64 && std::numeric_limits<Wide>::max_exponent > 2 * 1024);

/// Digits of the significand, and the exponent of the smallest normal number 2^e.
struct Precision {
    int digits;
    int smallest_exponent;
};

inline Type part_of(Type type) {
    if (type == Type::c64) return Type::f32;
    return type == Type::c128 ? Type::f64 : type;
}

inline Precision precision_of(Type type) {
    switch (part_of(type)) {
        case Type::f16:
            return {11, -14};
        case Type::bf16:
            return {8, -126};
        case Type::f32:
            return {24, -126};
        default:
            return {53, -1022};
    }
}

/// The steps of the type from one number to another. What lies between two steps counts in proportion.
class Steps {
  public:
    explicit Steps(const Precision& precision) : precision_(precision) {}

    [[nodiscard]] Wide between(Wide x, Wide y) const {
        const Wide low = std::min(std::abs(x), std::abs(y));
        const Wide high = std::max(std::abs(x), std::abs(y));
        if (low != 0 && (x < 0) != (y < 0)) return from_zero(low) + from_zero(high);
        const int below = exponent(low);
        const int above = exponent(high);
        if (below == above) return in_steps(high - low, above);
        return in_steps(std::ldexp(Wide{1}, below + 1) - low, below) + (above - below - 1) * in_a_binade() +
               in_steps(high - std::ldexp(Wide{1}, above), above);
    }

  private:
    [[nodiscard]] int exponent(Wide magnitude) const {
        if (magnitude == 0) return precision_.smallest_exponent;
        return std::max(std::ilogb(magnitude), precision_.smallest_exponent);
    }
    [[nodiscard]] Wide in_steps(Wide length, int exponent) const {
        return std::ldexp(length, precision_.digits - 1 - exponent);
    }
    [[nodiscard]] Wide in_a_binade() const { return std::ldexp(Wide{1}, precision_.digits - 1); }
    [[nodiscard]] Wide from_zero(Wide magnitude) const {
        return (exponent(magnitude) - precision_.smallest_exponent) * in_a_binade() +
               in_steps(magnitude - std::ldexp(Wide{1}, exponent(magnitude)), exponent(magnitude)) +
               in_a_binade();
    }

    Precision precision_;
};

/// The same for doubles of one sign and one binade, as most that are compared are; nothing for others.
inline std::optional<double> steps_in_a_binade(double x, double y, const Precision& precision) {
    constexpr int kBias = 1023;
    const int exponent =
        static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52);  // negative numbers: 2048 more
    if (exponent != static_cast<int>(std::bit_cast<std::uint64_t>(y) >> 52)) return {};
    const int of_a_step = exponent % 2048 - (precision.digits - 1);
    if (of_a_step < 1 || exponent % 2048 - kBias < precision.smallest_exponent) return {};
    return std::abs(x - y) / std::bit_cast<double>(static_cast<std::uint64_t>(of_a_step) << 52);
}

/// The same for two numbers that the type has, as IEEE 754 orders their bits.
template <class Float, class Bits>
double steps_between(Float x, Float y) {
    const auto place = [](Float value) {
        const Bits bits = std::bit_cast<Bits>(value);
        const Bits magnitude = bits & std::numeric_limits<Bits>::max();
        return bits < 0 ? -magnitude : magnitude;
    };
    const Bits a = place(x);
    const Bits b = place(y);
    if constexpr (sizeof(Bits) < sizeof(std::int64_t))
        return std::abs(static_cast<double>(a) - static_cast<double>(b));
    using Unsigned = std::make_unsigned_t<Bits>;
    return static_cast<double>(static_cast<Unsigned>(std::max(a, b)) - static_cast<Unsigned>(std::min(a, b)));
}

/// How the steps between two types are counted.
enum class Stepping { integers, single_bits, double_bits, in_proportion };

inline Stepping stepping_of(Type x, Type y) {
    if (is_integer(x) && is_integer(y)) return Stepping::integers;
    if (x == y && x == Type::f32) return Stepping::single_bits;
    if (x == y && x == Type::f64) return Stepping::double_bits;
    return Stepping::in_proportion;
}

inline Precision coarser_precision(Type x, Type y) {
    const Precision of_x = precision_of(x);
    const Precision of_y = precision_of(y);
    return is_integer(y) || (!is_integer(x) && of_x.digits <= of_y.digits) ? of_x : of_y;
}

}  // namespace gpumat::comparison
