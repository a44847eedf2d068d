#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/command.hpp"
#include "cli/terminal/context.hpp"
#include "lib/measure/bench_sparse.hpp"

// The options that several commands have.

namespace gpumat::cli {

/// The type, in the help, of options and positions that name a matrix: FILE or FILE:/DATASET. A batch finds
/// the files of a job by it.
inline constexpr const char* kReference = "REF";

/// The same of options that name a file which is no matrix.
inline constexpr const char* kFile = "FILE";

/// Adds the operation by its name, one of those there are. `more` ends the help.
Option& add_operation_name(Command& command, std::string& name, const Context& context,
                           const std::string& more = "");

/// Adds --device to a command.
void add_device(Command& command, std::string& device);

/// Names the element types as values of an option.
Option& suggest_types(Option& option);

/// Adds --threads to a command: as many as there are processors unless it is given.
void add_threads(Command& command, int& threads, const std::string& help);

/// For a check: what is wrong with a text that is no number, which ranges let pass.
std::string require_number(const std::string& text);

/// Adds --time-limit to a command: seconds.
void add_time_limit(Command& command, double& seconds, const std::string& help);

/// Adds --memory-limit to a command: bytes, or a number with a unit such as 4GiB.
void add_memory_limit(Command& command, std::optional<std::uint64_t>& limit, const std::string& help,
                      const std::string& name = "--memory-limit");

/// Adds --seed to a command: a number without a sign.
void add_seed(Command& command, std::uint64_t& seed, const std::string& help);

/// Adds --sparse, and what `generate` takes for the entries, to a command that makes matrices itself.
void add_sparse_inputs(Command& command, SparseInputs& sparse);

/// Adds --log to a command: a file.
Option& add_log(Command& command, std::string& log, const std::string& help);

/// For a check: what is wrong with a number that must be finite and not negative; empty where nothing is.
std::string require_non_negative(const std::string& text);

/// Adds --color and --config to the tool or a command.
void add_general_options(Command& command);

/// Adds --json, -q, -v and the general options to a command, in a group of their own.
void add_style_options(Command& command, Style& style);

}  // namespace gpumat::cli
