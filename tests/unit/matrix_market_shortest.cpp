// The writer's digits against std::to_chars, which is another algorithm (Ryū): the text must be the same.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "formats/matrix_market/numbers/packed_text.hpp"
#include "formats/matrix_market/numbers/shortest.hpp"
#include "formats/matrix_market/text/number_text.hpp"
#include "tests/catch.hpp"

namespace gpumat::formats::matrix_market {
namespace {

template <class T>
std::string expected_text(T value) {
    std::array<char, 64> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// What write_shortest writes, or a complaint where it touches more than its room.
template <class T>
std::string found_text(T value) {
    std::array<char, kNumberRoom + 16> text{};
    text.fill('#');
    const char* const end = write_shortest(text.data(), value);
    for (std::size_t i = kNumberRoom; i < text.size(); ++i) {
        if (text[i] != '#') return "beyond its room: " + std::string(text.data(), text.size());
    }
    return std::string(static_cast<const char*>(text.data()), end);
}

template <class T>
void compare(T value) {
    const std::string expected = expected_text(value);
    const std::string found = found_text(value);
    if (found != expected) FAIL_CHECK("found " << found << ", expected " << expected);
}

/// The text after it was packed and unpacked; nothing where it is not packed.
std::optional<std::string> unpacked(const std::string& text) {
    const std::string padded = text + std::string(64, 'x');
    TextBits bits{};
    if (!pack(padded.data(), text.size(), bits)) return {};
    CHECK(!bits.is_place());
    std::array<char, kUnpackedRoom> found{};
    const std::size_t length = unpack(bits, found.data());
    if (text.size() <= kMostPackedShort) CHECK(bits.high == ~std::uint64_t{0});
    return std::string(found.data(), length);
}

}  // namespace

TEST_CASE("matrix market digits: texts are packed and unpacked as they are") {
    std::mt19937_64 random(23);
    const std::string alphabet = "0123456789+-.eE";
    for (std::size_t length = 1; length <= kMostPacked; ++length) {
        for (int n = 0; n < 200; ++n) {
            std::string text;
            while (text.size() < length) text += alphabet[random() % alphabet.size()];
            CHECK(unpacked(text) == text);
        }
    }
    CHECK(!unpacked(""));
    CHECK(!unpacked(std::string(kMostPacked + 1, '1')));
    for (int c = -128; c < 128; ++c) {
        if (alphabet.find(static_cast<char>(c)) != std::string::npos) continue;
        for (const std::size_t length : {1, 15, 16, 17, 31}) {
            std::string text(length, '7');
            text.back() = static_cast<char>(c);
            CHECK(!unpacked(text));
        }
    }
}

TEST_CASE("matrix market digits: indices") {
    std::mt19937_64 random(29);
    std::vector<std::int64_t> indices = {
        0, 1, 9, 10, 99'999'999, 100'000'000, std::numeric_limits<std::int64_t>::max()};
    for (std::int64_t power = 1; power <= 1'000'000'000'000; power *= 10) {
        indices.insert(indices.end(), {power - 1, power, power + 1});
        for (int n = 0; n < 1000; ++n)
            indices.push_back(static_cast<std::int64_t>(random()) & (10 * power - 1));
    }
    for (const std::int64_t index : indices) {
        if (index < 0) continue;
        std::array<char, kLongestIndex + 8> text{};
        CHECK(std::string(text.data(), format_index(text.data(), index)) == std::to_string(index));
    }
}

TEST_CASE("matrix market digits: special values") {
    CHECK(found_text(0.0) == "0");
    CHECK(found_text(-0.0F) == "-0");
    CHECK(found_text(std::numeric_limits<double>::infinity()) == "inf");
    CHECK(found_text(-std::numeric_limits<float>::infinity()) == "-inf");
    CHECK(found_text(-std::numeric_limits<double>::quiet_NaN()) == "nan");
    CHECK(found_text(-std::numeric_limits<double>::min()) == "-2.2250738585072014e-308");
    CHECK(found_text(5e-324) == "5e-324");
    CHECK(found_text(std::numeric_limits<double>::max()) == "1.7976931348623157e+308");
    CHECK(found_text(1e22) == "1e+22");
    CHECK(found_text(0x1p64) == "18446744073709551616");
    CHECK(found_text(0.1F) == "0.1");
}

TEST_CASE("matrix market digits: around every power of two") {
    for (std::uint64_t exponent = 0; exponent < 2047; ++exponent) {
        for (const std::uint64_t fraction : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 51,
                                             (std::uint64_t{1} << 52) - 2, (std::uint64_t{1} << 52) - 1}) {
            compare(std::bit_cast<double>(exponent << 52 | fraction));
        }
    }
    for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
        for (std::uint32_t fraction = 0; fraction < 1U << 23; fraction += 32749) {
            compare(std::bit_cast<float>(exponent << 23 | fraction));
        }
        compare(std::bit_cast<float>(exponent << 23 | ((1U << 23) - 1)));
    }
}

TEST_CASE("matrix market digits: random bits, short decimals and whole numbers") {
    constexpr std::array kDivisors = {1.0, 10.0, 1e2, 1e3, 1e5, 1e8, 1e15, 1e-3};
    std::mt19937_64 random(11);
    for (int i = 0; i < 300'000; ++i) {
        const std::uint64_t bits = random();
        const auto any = std::bit_cast<double>(bits);
        if (std::isfinite(any)) compare(any);
        const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
        if (std::isfinite(narrow)) compare(narrow);
        compare(static_cast<double>(bits % 1'000'000) / kDivisors[bits >> 61]);
        compare(-static_cast<double>(bits >> (bits & 63)));
        compare(static_cast<float>(bits >> (bits & 63)));
        compare(static_cast<double>(bits >> (bits & 63)) * 1e5);
    }
}

}  // namespace gpumat::formats::matrix_market
