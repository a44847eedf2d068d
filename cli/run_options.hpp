#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/context.hpp"
#include "lib/options.hpp"

namespace gpumat::cli {

/// The options that transpose and multiply share, as parsed.
struct SharedOptions {
    RunOptions run;
    std::optional<std::string> type;
    std::string verify = "auto";
    std::string log;
    std::optional<std::string> chunk;
};

/// The value of --type. Throws Error{usage} listing the names there are.
Type parse_type(const std::string& text);

/// Adds the shared options to a command.
void add_shared_options(CLI::App& command, SharedOptions& shared, Style& style);

/// Adds the options that say how HDF5 files are read.
void add_reading_options(CLI::App& command, formats::ReadOptions& read);

/// Runs the operation: prints the summary, appends the record to the log, sets the exit code. A failed run
/// is logged too, and its error rethrown.
void run_operation(SharedOptions& shared, Context& context);

}  // namespace gpumat::cli
