#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/context.hpp"

// The options that several commands have.

namespace gpumat::cli {

/// The type, in the help, of options and positions that name a matrix: FILE or FILE:/DATASET. A batch finds
/// the files of a job by it.
inline constexpr const char* kReference = "REF";

/// The same of options that name a file which is no matrix.
inline constexpr const char* kFile = "FILE";

/// Adds the operation by its name, one of those there are. `more` ends the help.
CLI::Option* add_operation_name(CLI::App& command, std::string& name, const Context& context,
                                const std::string& more = "");

/// Adds --device to a command.
void add_device(CLI::App& command, std::string& device);

/// Names the element types as values of an option.
CLI::Option* suggest_types(CLI::Option* option);

/// Adds --threads to a command: as many as there are processors unless it is given.
void add_threads(CLI::App& command, int& threads, const std::string& help);

/// Refuses what is no number, which ranges let pass.
CLI::Validator is_number();

/// Adds --time-limit to a command: seconds.
void add_time_limit(CLI::App& command, double& seconds, const std::string& help);

/// Adds --memory-limit to a command: bytes, or a number with a unit such as 4GiB.
void add_memory_limit(CLI::App& command, std::optional<std::uint64_t>& limit, const std::string& help,
                      const std::string& name = "--memory-limit");

/// Adds --seed to a command: a number without a sign.
void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help);

/// For a check: what is wrong with a number that must be finite and not negative; empty where nothing is.
std::string require_non_negative(const std::string& text);

/// Adds an option that takes a list: one argument with commas, so that what follows it is not taken for more.
template <class T>
CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<T>& values,
                      const std::string& help) {
    return command.add_option(name, values, help)->delimiter(',')->allow_extra_args(false);
}

/// The group of the help that comes last: what all commands have.
inline constexpr const char* kGeneralGroup = "General";

/// What is added to the command from here on stands in the help under this title.
void begin_group(CLI::App& command, const std::string& title);

/// Adds --color and --config to the tool or a command.
void add_general_options(CLI::App& command);

/// Adds --json, -q, -v and the general options to a command, in a group of their own.
void add_style_options(CLI::App& command, Style& style);

}  // namespace gpumat::cli
