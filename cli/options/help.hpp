#pragma once

#include <string>

#include "cli/options/command.hpp"

namespace gpumat::cli {

/// The help of a command: usage, options in groups and commands, in lines of 80 columns. What its footer says
/// is shown as it stands.
std::string help_text(const Command& command);

}  // namespace gpumat::cli
