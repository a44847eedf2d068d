#include "core/text/printable.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gpumat {
namespace {

/// The first character of a text; `bytes` is 0 where that is no UTF-8.
struct Character {
    char32_t code = 0;
    std::size_t bytes = 0;
};

Character first_character(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text.front());
    if (lead < 0x80) return {lead, 1};
    const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
    char32_t code = lead & (0x7fU >> bytes);
    for (const char c : text.substr(1, bytes - 1)) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte & 0xc0U) != 0x80) return {};
        code = code << 6U | (byte & 0x3fU);
    }
    constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (code < kLeast.at(bytes) || code > 0x10ffff || surrogate) return {};
    return {code, bytes};
}

bool is_control(char32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/// Ends a line, or changes the direction in which what follows is read.
bool is_steering(char32_t code) {
    return code == 0xfeff || code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
        const Character character = first_character(text);
        const auto byte = static_cast<unsigned char>(text.front());
        if (character.bytes == 0 || (character.bytes == 1 && is_control(character.code))) {
            shown += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : fmt::format("\\x{:02x}", byte);
        } else if (is_control(character.code) || is_steering(character.code)) {
            shown += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(character.code));
        } else {
            shown += text.substr(0, character.bytes);
        }
        text.remove_prefix(character.bytes == 0 ? 1 : character.bytes);
    }
    return shown;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t bytes = first_character(text).bytes;
        if (bytes == 0) return false;
        text.remove_prefix(bytes);
    }
    return true;
}

std::string printable_json(std::string_view json) {
    std::string shown;
    while (!json.empty()) {
        // Only behind these first bytes there are such characters.
        const std::size_t plain = std::min(json.find_first_of("\x7f\xc2\xd8\xe2"), json.size());
        shown += json.substr(0, plain);
        json.remove_prefix(plain);
        if (json.empty()) break;
        const Character character = first_character(json);
        const std::size_t bytes = std::max<std::size_t>(1, character.bytes);
        if (is_control(character.code) || is_steering(character.code)) {
            shown += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character.code));
        } else {
            shown += json.substr(0, bytes);
        }
        json.remove_prefix(bytes);
    }
    return shown;
}

}  // namespace gpumat
