#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/format.hpp"

namespace gpumat {

/// What the log of a batch tells of a job: its last record, and whether it was begun and has none.
struct LoggedJob {           // NOLINT: moving its JSON does not throw
    nlohmann::json record;   ///< null where there is none
    bool in_flight = false;  ///< begun and not ended by itself, where nothing was at its output's place
};

/// The jobs of a log by their texts. A line that is no JSON is what a killed process left at the end, or
/// makes the log none. Throws Error{input} naming file and line for a log that is none, or whose records are
/// of a newer schema.
std::map<std::string, LoggedJob> read_batch_log(const std::string& path);

/// The line of a log that says that jobs begin: what is at their outputs' places later is theirs.
std::string begin_line(const std::vector<std::string>& texts);

/// Whether a job need not run again: its record has exit code 0, the inputs have the content that they had,
/// and the output is in its place with the content that it was given. Jobs without an output run again.
/// `read` is how the job reads its inputs.
bool is_done(const nlohmann::json& record, const formats::ReadOptions& read);

}  // namespace gpumat
