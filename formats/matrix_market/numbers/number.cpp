#include "formats/matrix_market/numbers/number.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include "formats/matrix_market/numbers/powers.hpp"

namespace gpumat::formats::matrix_market {
namespace {

constexpr std::ptrdiff_t kMantissaDigits = 19;  // 10¹⁹ < 2⁶⁴

/// Written exponents stop counting here: no file has enough digits to bring such a value back.
constexpr std::int64_t kHugeExponent = std::int64_t{1} << 60;

/// Neither a double nor a tie between two doubles has more significant digits.
constexpr std::size_t kDecisiveDigits = 768;

bool starts_with_ignoring_case(const char* p, std::string_view word) {
    return std::ranges::all_of(word, [&p](char c) { return (*p++ | 0x20) == c; });
}

/// The first digit that is not 0, or digits_end.
const char* first_significant(const Decimal& decimal) {
    return std::find_if(decimal.digits, decimal.digits_end, [](char c) { return c != '0' && c != '.'; });
}

/// The e of 0.DIGITS · 10^e, without the written exponent, where DIGITS start at `first`.
std::int64_t point_position(const Decimal& decimal, const char* first) {
    return first < decimal.point ? decimal.point - first : decimal.point + 1 - first;
}

/// 0.DIGITS · 10^exponent, without leading and trailing zeros. Of more than kDecisiveDigits digits the
/// last is a 1 that stands for all that were left out.
struct Digits {
    std::array<char, kDecisiveDigits + 1> digit{};
    std::size_t count = 0;
    std::int64_t exponent = 0;

    [[nodiscard]] std::string_view text() const { return {digit.data(), count}; }
    void strip_zeros() {
        while (count > 0 && digit[count - 1] == '0') --count;
    }
};

Digits digits_of(const Decimal& decimal) {
    Digits digits;
    const char* p = first_significant(decimal);
    if (p == decimal.digits_end) return digits;
    digits.exponent = point_position(decimal, p) + decimal.written_exponent;
    for (; p != decimal.digits_end && digits.count < kDecisiveDigits; ++p) {
        if (*p != '.') digits.digit[digits.count++] = *p;
    }
    const bool more = std::any_of(p, decimal.digits_end, [](char c) { return c != '0' && c != '.'; });
    if (more) {
        digits.digit[digits.count++] = '1';
    } else {
        digits.strip_zeros();
    }
    return digits;
}

/// Every digit of a positive finite double.
Digits digits_of(double value) {
    std::array<char, kDecisiveDigits + 16> text{};
    const auto [end, error] =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific,
                      static_cast<int>(kDecisiveDigits) - 1);
    (void)error;  // the text always fits
    Digits digits;
    const char* const letter = std::find(text.data(), end, 'e');
    for (const char* p = text.data(); p != letter; ++p) {
        if (*p != '.') digits.digit[digits.count++] = *p;
    }
    digits.strip_zeros();
    int exponent = 0;
    std::from_chars(letter + (letter[1] == '+' ? 2 : 1), end, exponent);
    digits.exponent = exponent + 1;
    return digits;
}

/// The order of two positive numbers.
std::strong_ordering compare(const Digits& a, const Digits& b) {
    if (a.exponent != b.exponent) return a.exponent <=> b.exponent;
    return a.text() <=> b.text();
}

/// The nearest double for any number of digits. False where it is beyond the range.
bool nearest_double(const Decimal& decimal, double& value) {
    const Digits digits = digits_of(decimal);
    if (digits.count == 0 || digits.exponent < -400) {
        value = 0;
        return true;
    }
    if (digits.exponent > 400) return false;
    std::array<char, kDecisiveDigits + 16> text{};
    char* end = std::copy_n(digits.digit.data(), digits.count, text.data());
    *end++ = 'e';
    end = std::to_chars(end, text.data() + text.size(),
                        digits.exponent - static_cast<std::int64_t>(digits.count))
              .ptr;
    value = 0;  // left alone where the value is too small or too large
    const std::errc error = std::from_chars(text.data(), end, value).ec;
    return error == std::errc() || digits.exponent < 0;
}

/// The nearest double to the magnitude. False where it is beyond the range.
bool magnitude_of(const Decimal& decimal, double& value) {
    double above = 0;  // of the next mantissa: digits that were left out lie between
    if (multiply_by_power(decimal.mantissa, decimal.exponent, value) &&
        (!decimal.truncated ||
         (multiply_by_power(decimal.mantissa + 1, decimal.exponent, above) && above == value))) {
        return true;
    }
    return nearest_double(decimal, value);
}

/// Rounds to a type narrower than double as if in one step. The double nearest to the decimal decides,
/// unless a tie between two values of the type is near: then the digits do.
template <class T>
bool narrow(const Decimal& decimal, T& value) {
    const double sign = decimal.negative ? -1.0 : 1.0;
    if (decimal.kind != Decimal::Kind::finite) {
        value = T(decimal.kind == Decimal::Kind::nan ? std::numeric_limits<double>::quiet_NaN()
                                                     : sign * std::numeric_limits<double>::infinity());
        return true;
    }
    double magnitude = 0;
    if (!magnitude_of(decimal, magnitude)) return false;
    if (rounds_surely(sign * magnitude, value)) return true;
    // The number lies at or beside a double that may be a tie. Where it is not that double, of the two
    // doubles around it the odd one rounds as the number itself does: "round to odd" keeps what rounding
    // needs.
    const auto order = compare(digits_of(decimal), digits_of(magnitude));
    const auto bits = std::bit_cast<std::uint64_t>(magnitude);
    // clang-tidy 14 takes the zero that an ordering is compared with for a null pointer.
    if (order < 0) value = T(sign * std::bit_cast<double>((bits - 1) | 1));  // NOLINT
    if (order > 0) value = T(sign * std::bit_cast<double>(bits | 1));        // NOLINT
    return std::isfinite(static_cast<float>(value));
}

const char* scan_special(const char* p, Decimal& decimal) {
    decimal.plain = false;
    decimal.kind = Decimal::Kind::infinity;
    if (starts_with_ignoring_case(p, "infinity")) return p + 8;
    if (starts_with_ignoring_case(p, "inf")) return p + 3;
    decimal.kind = Decimal::Kind::nan;
    return starts_with_ignoring_case(p, "nan") ? p + 3 : nullptr;
}

const char* scan_exponent(const char* p, Decimal& decimal) {
    decimal.plain = false;
    ++p;
    const bool negative = *p == '-';
    if (*p == '-' || *p == '+') ++p;
    if (!is_digit(*p)) return nullptr;
    std::int64_t exponent = 0;
    for (; is_digit(*p); ++p) {
        if (exponent < kHugeExponent / 10) exponent = exponent * 10 + (*p - '0');
    }
    decimal.written_exponent = negative ? -exponent : exponent;
    decimal.exponent += decimal.written_exponent;
    return p;
}

void truncate_mantissa(Decimal& decimal) {
    const char* const first = first_significant(decimal);
    const bool crosses = first < decimal.point && decimal.point != decimal.digits_end;
    if (decimal.digits_end - first - (crosses ? 1 : 0) <= kMantissaDigits) return;
    decimal.mantissa = 0;
    const char* p = first;
    for (std::ptrdiff_t taken = 0; taken < kMantissaDigits; ++p) {
        if (*p == '.') continue;
        decimal.mantissa = decimal.mantissa * 10 + static_cast<std::uint64_t>(*p - '0');
        ++taken;
    }
    decimal.exponent = point_position(decimal, first) - kMantissaDigits;
    decimal.truncated = std::any_of(p, decimal.digits_end, [](char c) { return c != '0' && c != '.'; });
}

}  // namespace

const char* scan(const char* p, Decimal& decimal) {
    decimal.negative = *p == '-';
    if (*p == '-' || *p == '+') ++p;
    decimal.digits = p;
    std::uint64_t mantissa = 0;
    p = take_digits(p, mantissa);
    decimal.point = p;
    std::int64_t digits = p - decimal.digits;
    std::int64_t exponent = 0;
    if (*p == '.') {
        const char* fraction = ++p;
        p = take_digits(p, mantissa);
        exponent = fraction - p;
        digits -= exponent;
        decimal.plain = false;
    }
    if (digits == 0) return decimal.plain ? scan_special(decimal.digits, decimal) : nullptr;
    decimal.digits_end = p;
    decimal.mantissa = mantissa;
    decimal.exponent = exponent;
    if (digits > 19) truncate_mantissa(decimal);
    if (*p == 'e' || *p == 'E') return scan_exponent(p, decimal);
    return p;
}

bool to_float(const Decimal& decimal, double& value) {
    double magnitude = 0;
    if (decimal.kind == Decimal::Kind::nan) {
        magnitude = std::numeric_limits<double>::quiet_NaN();
    } else if (decimal.kind == Decimal::Kind::infinity) {
        magnitude = std::numeric_limits<double>::infinity();
    } else if (!magnitude_of(decimal, magnitude)) {
        return false;
    }
    value = decimal.negative ? -magnitude : magnitude;
    return true;
}

bool to_float(const Decimal& decimal, float& value) {
    return narrow(decimal, value);
}

bool to_float(const Decimal& decimal, Half& value) {
    return narrow(decimal, value);
}

bool to_float(const Decimal& decimal, BFloat16& value) {
    return narrow(decimal, value);
}

Fault to_magnitude(const Decimal& decimal, std::uint64_t& magnitude) {
    if (decimal.kind != Decimal::Kind::finite) return Fault::fraction;
    if (!decimal.truncated && decimal.exponent == 0) {
        magnitude = decimal.mantissa;
        return Fault::none;
    }
    const Digits digits = digits_of(decimal);
    if (static_cast<std::int64_t>(digits.count) > digits.exponent && digits.count != 0)
        return Fault::fraction;
    if (digits.exponent > 20) return Fault::range;
    unsigned __int128 value = 0;
    for (std::int64_t i = 0; i < digits.exponent; ++i) {
        const auto at = static_cast<std::size_t>(i);
        value = value * 10 + static_cast<unsigned>(at < digits.count ? digits.digit[at] - '0' : 0);
    }
    magnitude = static_cast<std::uint64_t>(value);
    return value >> 64 == 0 ? Fault::none : Fault::range;
}

}  // namespace gpumat::formats::matrix_market
