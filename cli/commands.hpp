#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/context.hpp"

namespace gpumat::cli {

/// Adds the commands of the tool, or only the one of that name.
void add_commands(CLI::App& app, Context& context, const std::string& only = "");

/// Whether a line of a batch may begin with this word: a command that works on matrices, measures nothing and
/// runs no other jobs.
bool may_be_job(const std::string& command, const Catalog& catalog);

/// Parses the words of a command line, `words[0]` being the tool, and runs it. Errors are told on standard
/// error. Returns the exit code.
int run_words(const std::vector<std::string>& words, const Catalog& catalog, const std::string& only = "");

}  // namespace gpumat::cli
