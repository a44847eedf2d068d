#pragma once

#include <string>

#include "cli/options/command_facts.hpp"

namespace gpumat::cli {

// The scripts with which shells complete command lines of the tool: commands, options, and the values of
// options. Where a value is a file, or anything at all, they leave it to the shell's completion of files.

std::string bash_completion(const CommandFacts& tool);
std::string zsh_completion(const CommandFacts& tool);
std::string fish_completion(const CommandFacts& tool);

}  // namespace gpumat::cli
