#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpumat::cli {

/// The columns that help and tables keep within: what every terminal has.
inline constexpr std::size_t kLineWidth = 80;

/// Characters of UTF-8 text: every byte that does not continue one.
std::size_t width_of(std::string_view text);

/// The words of a text in lines of at most `width` characters; a word that is longer has a line of its own.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

/// The words, with that between them.
std::string joined(const std::vector<std::string>& words, std::string_view between);

/// A name on the left and what it is on the right, from `column` on in lines of kLineWidth; below the name
/// where that is too long.
std::string two_columns(const std::string& name, const std::string& text, std::size_t column);

}  // namespace gpumat::cli
