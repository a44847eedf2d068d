#pragma once

#include <string>

#include "cli/options/command_facts.hpp"
#include "kernels/registry.hpp"

namespace gpumat::cli {

/// The manual page of a command (man(7), section 1): what its help says, and of an operation the levels too.
std::string manual_page(const CommandFacts& command, const Registry& registry);

/// "gpumat-verify-transpose".
std::string manual_name(const CommandFacts& command);

}  // namespace gpumat::cli
