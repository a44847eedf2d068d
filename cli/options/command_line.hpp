#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace gpumat::cli {

/// Parses the words of a command line, `words[0]` being the tool. Throws what CLI11 throws.
void parse_words(CLI::App& app, const std::vector<std::string>& words);

/// What is wrong with a command line: a word that is not known, with what was probably meant, before anything
/// that is missing.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace gpumat::cli
