#include "core/numbers/scalar.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/error.hpp"

namespace gpumat {
namespace {

/// The whole of `text` as a number; false where it is anything else.
template <class T>
bool parse(std::string_view text, T& value) {
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc{} && end == text.data() + text.size();
}

/// The largest finite value of the type, or of its parts.
double largest(Type type) {
    switch (type) {
        case Type::f16:
            return 65504;
        case Type::bf16:
            return static_cast<double>(static_cast<float>(BFloat16::from_bits(0x7f7f)));
        case Type::f32:
        case Type::c64:
            return std::numeric_limits<float>::max();
        default:
            return std::numeric_limits<double>::max();
    }
}

}  // namespace

Scalar parse_scalar(const std::string& text, Type type, const std::string& option) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::usage, option + " is '" + text + "': " + why);
    };
    if (is_integer(type)) {
        std::int64_t integer = 0;
        if (!parse(text, integer))
            refuse("expected an integer, because the matrices are " + std::string(name_of(type)));
        if (type == Type::i32 && (integer < std::numeric_limits<std::int32_t>::min() ||
                                  integer > std::numeric_limits<std::int32_t>::max())) {
            refuse("beyond the range of i32");
        }
        return Scalar::of(integer);
    }
    const auto comma = text.find(',');
    double real = 0;
    double imaginary = 0;
    if (!parse(std::string_view(text).substr(0, comma), real)) refuse("expected a number");
    if (comma != std::string::npos) {
        if (!is_complex(type))
            refuse("has an imaginary part, and the matrices are " + std::string(name_of(type)));
        if (!parse(std::string_view(text).substr(comma + 1), imaginary))
            refuse("expected a number after the comma");
    }
    // α and β scale in the accumulator's type, so f16 and bf16 take any f32.
    const Type held = is_complex(type) || type == Type::f64 ? type : Type::f32;
    if (!(std::abs(real) <= largest(held) && std::abs(imaginary) <= largest(held))) {
        refuse("expected a finite number within the range of " + std::string(name_of(held)));
    }
    // A factor that rounds to zero would leave out what it was to scale.
    const bool single = held == Type::f32 || held == Type::c64;
    const auto vanishes = [&](double part) { return single && part != 0 && static_cast<float>(part) == 0; };
    if (vanishes(real) || vanishes(imaginary)) refuse("rounds to zero in " + std::string(name_of(held)));
    return {{real, imaginary}, 0};
}

}  // namespace gpumat
