#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/batch/job_line.hpp"
#include "cli/options/command.hpp"

namespace gpumat::cli {

/// How a batch runs.
struct BatchOptions {
    int jobs = 0;  ///< at the same time; 0: as the machine has processors
    bool fail_fast = false;
    double timeout_s = 0;  ///< of one job; 0: none
    bool resume = false;
    std::string log;
};

/// Adds them, but for --log.
void add_batch_options(Command& command, BatchOptions& options);

/// What the help says of the output of several inputs.
inline constexpr const char* kPlaceholders =
    "Of several inputs, --output is a folder, or has a placeholder: {} is the path\n"
    "of the input, {.} the path without its extension, {/} its name, {/.} its name\n"
    "without the extension, {//} its folder. '{}:/NEW' adds each result to the file\n"
    "of its input.\n";

/// Throws Error{usage} where the log cannot serve, or `json` wants standard output as well.
void require_log_of_batch(const BatchOptions& options, bool json);

/// The inputs of a command that takes one, or several with a template for the output.
struct SeveralInputs {
    std::vector<std::string> names;
    BatchOptions batch;
};

/// Adds them, and the options of a batch.
void add_several_inputs(Command& command, SeveralInputs& inputs, const std::string& name,
                        const std::string& help);

/// Where the command has several inputs, a template or a folder as its output, a time-out or a batch to
/// resume, runs its line for each of them, sets the exit code and returns true. `to` is the format that is
/// asked for; `answers`: it prints an answer where it has no output. Throws Error{usage} for options that
/// need several.
bool run_several(const Command& command, SeveralInputs& inputs, const std::optional<std::string>& output,
                 const std::string& to, bool answers, const std::string& log, Context& context);

/// Runs the jobs, tells on standard error what failed and the summary, appends a record of each to the log as
/// it ends. `shown` names where the lines are from. Returns the exit code: 1 where a job's result differs,
/// else that of the first job that failed.
int run_batch(const std::vector<Job>& jobs, const BatchOptions& options, const std::string& shown,
              const Context& context);

}  // namespace gpumat::cli
