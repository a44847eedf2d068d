#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace gpumat::cli {

/// The environment variable that gives an option its default, "GPUMAT_LEVEL"; empty for options that have
/// none: those that say what is read, computed or written, not how.
std::string environment_name(const CLI::Option& option);

/// All those variables.
std::vector<std::string> environment_names();

/// The --config of a command line, else GPUMAT_CONFIG; empty where there is none.
std::string config_path(const std::vector<std::string>& command_line);

/// Makes the command, when it is parsed, begin with the defaults that the environment gives, else the
/// configuration file: what its command line says goes first. Outside of a section the file speaks of every
/// command that has the option; inside of [bench] or [verify.transpose], of that one. `as_job`: only
/// this command is there to check the file with, and the log belongs to the batch. Throws Error{usage} with
/// the file and the key, or the variable.
void use_settings(CLI::App& command, const std::string& path, bool as_job);

}  // namespace gpumat::cli
