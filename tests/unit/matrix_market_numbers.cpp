// The reader's numbers against the C library's strtod and strtof, which are another algorithm: the same bits,
// the same end, and the same tokens refused, whatever follows the number in the text.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

#include "formats/matrix_market/numbers/number.hpp"
#include "tests/catch.hpp"

/// Numbers of each kind.
#ifndef GPUMAT_NUMBERS_OF_A_KIND
#define GPUMAT_NUMBERS_OF_A_KIND 100'000
#endif

namespace gpumat::formats::matrix_market {
namespace {

constexpr std::array kFollowers = {"\n", " ", "\t7", "\r\n", "\n-1.5E-3\n", " .5e5 1\n", "\n8\n9.5\n+e-\n"};

bool is_blank_or_end(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// Whether `text` is a number that is read as the C library reads it, or none that it takes as a whole.
template <class T>
bool agrees(const std::string& text, std::size_t number) {
    std::string line = text + kFollowers[number % kFollowers.size()];
    line.resize(line.size() + 64, "0.e5 \n"[number % 6]);
    char* expected_end = nullptr;
    T expected{};
    if constexpr (std::is_same_v<T, double>) {
        expected = std::strtod(line.c_str(), &expected_end);
    } else {
        expected = std::strtof(line.c_str(), &expected_end);
    }
    const bool valid = !text.empty() && expected_end == line.c_str() + text.size();

    const char* p = line.c_str();
    T found{};
    const Fault fault = parse_real(p, found);
    if (!valid) return fault == Fault::malformed || !is_blank_or_end(*p);
    if (p != expected_end) return false;
    if (std::isinf(expected)) return fault == Fault::range;
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    return fault == Fault::none && std::bit_cast<Bits>(found) == std::bit_cast<Bits>(expected);
}

template <class... Format>
std::string text_of(double value, Format... format) {
    std::array<char, 1200> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format...).ptr};
}

/// Checks what `make(random)` gives, and leaves no more than a few complaints.
template <class Make>
void compare(const Make& make) {
    std::mt19937_64 random(17);
    int complaints = 0;
    for (std::size_t i = 0; i < GPUMAT_NUMBERS_OF_A_KIND && complaints < 10; ++i) {
        const std::string text = make(random);
        if (agrees<double>(text, i) && agrees<float>(text, i)) continue;
        ++complaints;
        FAIL_CHECK("'" << text << "' is read differently");
    }
}

double any_double(std::mt19937_64& random) {
    for (;;) {
        const auto value = std::bit_cast<double>(random());
        if (std::isfinite(value)) return value;
    }
}

/// Of the size that is usual.
double usual_double(std::mt19937_64& random) {
    return std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 40) - 70) *
           (random() % 2 == 0 ? 1 : -1);
}

std::string random_text(std::mt19937_64& random, const std::string& characters, std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += characters[random() % characters.size()];
    return text;
}

/// The exact middle between a positive double and the next, in scientific form with all its digits.
std::string middle_above(double value) {
    // Doubled mantissas would not fit: the middle of v and its neighbour is computed in long double, which
    // has eleven bits more.
    static_assert(std::numeric_limits<long double>::digits >= 64);
    const double next = std::nextafter(value, std::numeric_limits<double>::infinity());
    const long double middle = (static_cast<long double>(value) + static_cast<long double>(next)) / 2;
    std::array<char, 1200> text{};
    return {text.data(),
            static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.800Le", middle))};
}

}  // namespace

TEST_CASE("matrix market numbers: shortest and 17 digits of random bits") {
    compare([](auto& random) { return text_of(any_double(random)); });
    compare([](auto& random) { return text_of(any_double(random), std::chars_format::scientific, 16); });
    compare([](auto& random) {
        const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        return std::isfinite(narrow) ? text_of(static_cast<double>(narrow)) : std::string("1");
    });
}

TEST_CASE("matrix market numbers: usual sizes in every form") {
    compare([](auto& random) { return text_of(usual_double(random)); });
    compare([](auto& random) {
        std::string text =
            text_of(usual_double(random), std::chars_format::fixed, static_cast<int>(random() % 20));
        return text;
    });
    compare([](auto& random) {
        std::string text =
            text_of(usual_double(random), std::chars_format::scientific, static_cast<int>(random() % 20));
        if (random() % 2 == 0) std::replace(text.begin(), text.end(), 'e', 'E');
        return text;
    });
    compare(
        [](auto& random) { return std::to_string(static_cast<std::int64_t>(random()) >> (random() & 63)); });
}

TEST_CASE("matrix market numbers: 1 to 25 digits with a point anywhere and any exponent") {
    compare([](auto& random) {
        std::string text = random_text(random, "0123456789", 1 + random() % 25);
        if (random() % 4 != 0) text.insert(random() % (text.size() + 1), 1, '.');
        if (random() % 2 == 0) text.insert(0, 1, random() % 4 == 0 ? '+' : '-');
        if (random() % 2 == 0) return text;
        const auto exponent = static_cast<int>(random() % 700) - 360;
        return text + (random() % 2 == 0 ? "e" : "E") + (exponent >= 0 && random() % 2 == 0 ? "+" : "") +
               (random() % 8 == 0 ? "0" : "") + std::to_string(exponent >> (random() % 8));
    });
}

TEST_CASE("matrix market numbers: ties and what lies beside them") {
    compare([](auto& random) {
        std::string text = middle_above(std::abs(any_double(random)) / 2);
        const std::size_t letter = text.find('e');
        const std::size_t digits =
            std::min<std::size_t>(letter, 2 + (random() % 2 == 0 ? 18 : random() % 800));
        std::string cut = text.substr(0, digits);
        cut.back() = static_cast<char>(
            std::clamp(cut.back() + static_cast<int>(random() % 3) - 1, int{'0'}, int{'9'}));
        return cut + text.substr(letter);
    });
    compare([](auto& random) {  // whole numbers of 54 to 64 bits, and quotients by small powers of ten
        const std::uint64_t odd = (random() | std::uint64_t{1} << 63) >> (random() % 11) | 1;
        const std::uint64_t shifted = odd >> (random() % 11) << (random() % 11);
        return std::to_string(shifted + random() % 3 - 1) +
               (random() % 2 == 0 ? "" : "e" + std::to_string(random() % 24));
    });
    compare([](auto& random) {  // ties of floats and doubles with digits behind the point
        const auto mantissa = static_cast<double>((random() >> (11 + random() % 29)) | 1);
        return text_of(std::ldexp(mantissa, -static_cast<int>(random() % 60)), std::chars_format::fixed);
    });
}

TEST_CASE("matrix market numbers: subnormal, largest and zero") {
    compare([](auto& random) {
        const auto tiny = std::bit_cast<double>(random() >> (12 + random() % 52));
        return text_of(tiny, std::chars_format::scientific, static_cast<int>(random() % 19));
    });
    compare([](auto& random) {
        const auto huge = std::bit_cast<double>(0x7fefffffffffffffULL - (random() >> (12 + random() % 52)));
        std::string text = text_of(huge, std::chars_format::scientific, 14 + static_cast<int>(random() % 6));
        text[text.find('e') - 1] = static_cast<char>('0' + random() % 10);
        return text;
    });
    compare([](auto& random) {
        return random_text(random, "0", 1 + random() % 20) + "." + random_text(random, "0", random() % 20) +
               "e" + std::to_string(static_cast<int>(random() % 2000) - 1000);
    });
    compare([](auto& random) {
        return "2.47032822920623" + random_text(random, "0123456789", random() % 10) + "e-324";
    });
}

TEST_CASE("matrix market numbers: what is no number") {
    compare([](auto& random) { return random_text(random, "01.-+eE", 1 + random() % 8); });
    compare([](auto& random) {
        return random_text(random, "0123456789012345678901234567.-+eE", 1 + random() % 30);
    });
    compare([](auto& random) {
        std::string text = text_of(usual_double(random));
        text[random() % text.size()] = "0.eE+-,;:/@`\x01\x80\xae\xe5"[random() % 16];
        return text;
    });
}

}  // namespace gpumat::formats::matrix_market
