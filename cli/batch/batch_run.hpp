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

/// The inputs of a command that takes one, or several with a template for the output.
struct SeveralInputs {
    std::vector<std::string> names;
    BatchOptions batch;
};

/// Adds them, and the options of a batch.
void add_several_inputs(Command& command, SeveralInputs& inputs, const std::string& name,
                        const std::string& help);

/// Where the command has several inputs, a template, a time-out or a batch to resume, runs its line for
/// each of them, sets the exit code and returns true. Throws Error{usage} for options that need several.
bool run_several(const Command& command, SeveralInputs& inputs, const std::optional<std::string>& output,
                 const std::string& log, Context& context);

/// Runs the jobs, tells on standard error what failed and the summary, appends a record of each to the log as
/// it ends. `shown` names where the lines are from. Returns the exit code: 1 where a job's result differs,
/// else that of the first job that failed.
int run_batch(const std::vector<Job>& jobs, const BatchOptions& options, const std::string& shown,
              const Context& context);

}  // namespace gpumat::cli
