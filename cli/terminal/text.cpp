#include "cli/terminal/text.hpp"

#include <algorithm>
#include <sstream>

namespace gpumat::cli {

std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
    std::vector<std::string> lines = {""};
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        std::string& line = lines.back();
        if (line.empty()) {
            line = word;
        } else if (width_of(line) + 1 + width_of(word) <= width) {
            line += " " + word;
        } else {
            lines.push_back(word);
        }
    }
    return lines;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string text;
    for (const std::string& word : words) {
        if (&word != &words.front()) text += between;
        text += word;
    }
    return text;
}

std::string two_columns(const std::string& name, const std::string& text, std::size_t column) {
    std::string result = name;
    std::size_t at = width_of(name);
    if (at + 1 > column && !text.empty()) {
        result += "\n";
        at = 0;
    }
    for (const std::string& line : wrapped(text, kLineWidth - column)) {
        if (!line.empty()) result += std::string(column - at, ' ') + line;
        result += "\n";
        at = 0;
    }
    return result;
}

}  // namespace gpumat::cli
