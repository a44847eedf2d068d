#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/options/command.hpp"

namespace gpumat::cli {

/// The environment variable that gives an option its default, "GPUMAT_LEVEL"; empty for options that have
/// none: those that say what is read, computed or written, not how.
std::string environment_name(const Option& option);

/// All those variables of a tool.
std::vector<std::string> environment_names(const Command& tool);

/// The --config of a command line, else GPUMAT_CONFIG; empty where there is none.
std::string config_path(const std::vector<std::string>& command_line);

/// Gives an option another default; `where` names its origin in errors.
using GiveDefault = std::function<void(Option& option, const std::string& value, const std::string& where)>;

/// The defaults that the environment gives to the options of a command, else the configuration file at
/// `path`. Outside of a section the file speaks of every command that has the option; inside of [bench] or
/// [verify.transpose], of that one. `as_job`: only this command is there to check the file with, and the log
/// belongs to the batch. `given_before`: the command line says it before the command, as in
/// gpumat --color never levels. Throws Error{usage} with the file and the key, or the variable.
void for_each_default(Command& command, const std::string& path, bool as_job,
                      const std::function<bool(const Option&)>& given_before, const GiveDefault& give);

}  // namespace gpumat::cli
