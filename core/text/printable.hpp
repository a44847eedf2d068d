#pragma once

#include <string>
#include <string_view>

namespace gpumat {

/// Text that a terminal shows as it is, and in one line. Names come from files, and may hold anything:
/// control characters and bytes that are no UTF-8 become "\n", "\t" and "\x1b", characters that steer a
/// terminal or turn the direction of text "\u{202e}".
std::string printable(std::string_view text);

/// Whether all of a text is UTF-8.
bool is_utf8(std::string_view text);

/// A text of JSON that means the same and that a terminal shows as it is: those characters, of which JSON
/// escapes only the first 32, become "\u202e".
std::string printable_json(std::string_view json);

}  // namespace gpumat
