#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/command.hpp"
#include "cli/terminal/context.hpp"
#include "formats/format.hpp"
#include "lib/output/destination.hpp"
#include "lib/record/file_record.hpp"
#include "lib/record/progress.hpp"
#include "lib/record/run_log.hpp"

namespace gpumat::cli {

/// How a matrix is to be stored, as parsed.
struct StorageOptions {
    std::string format;  ///< of --to; "" chooses by extension
    bool force = false;
    double wait_s = 0;
    std::optional<std::string> chunk;
    std::optional<int> deflate;
    std::optional<std::string> layout;  ///< of --output-layout
    std::optional<std::string> sparse_layout;
    bool sparse = false;
    bool dense = false;
    formats::WriteOptions write;
};

/// Adds --to, --force, --wait, --chunk, --deflate, --shuffle and the layouts; returns them.
std::vector<Option*> add_storage_options(Command& command, StorageOptions& storage);

/// Adds --dense and --sparse.
void add_structure_options(Command& command, StorageOptions& storage);

/// What they say for that output. Throws Error{usage}.
DestinationRequest destination_of(const std::string& output, const StorageOptions& storage);
formats::WriteOptions write_options_of(const StorageOptions& storage, const std::string& output, int threads);

/// "C.h5:/C from A.h5:/A (a file of 3.00 KiB)"; `taken` is empty where all names were given.
std::string written_words(const RecordedMatrix& output, const std::string& taken);

/// "256x512" as two numbers of at least `least`; `option` names it in errors. Throws Error{usage}.
Shape parse_shape(const std::string& text, const std::string& option, std::int64_t least);

/// Runs a command that writes the matrix `output`: prints what it did, or with --json its record, and appends
/// it to the log, also that of a failed run, whose error is rethrown. A log that is the output, or one of the
/// record's inputs, is refused.
void run_file_command(FileRecord& record, const std::string& output, const std::string& log_path,
                      Context& context, const std::function<void(Progress&, RunLog&)>& run);

/// Hands the record on to the batch whose job the command is.
FileRecordListener listener_of(const Context& context);

/// The help of --log of such commands.
inline constexpr const char* kAppendsRecord = "append the record: JSON Lines; '-' is standard output";

/// Throws Error{usage} for a log whose name is that of a CSV file, which only runs can fill.
void require_json_log(const std::string& log);

/// Throws Error{usage} where more than one of the matrix, the log and --json would go to standard output.
void require_one_on_stdout(const std::string& output, const std::string& log, const Context& context);

}  // namespace gpumat::cli
