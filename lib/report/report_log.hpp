#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gpumat {

/// A record of a log, and where it is: "runs.jsonl:12".
struct LogRecord {  // NOLINT: moving its JSON does not throw
    std::string source;
    nlohmann::json json;
};

/// The records of logs.
struct LogRecords {
    std::vector<LogRecord> records;
    std::vector<std::string> cut;  ///< where records are whose end is missing: their writer was killed
};

/// Adds the records of a log: lines of JSON as --log writes them, and the objects that --json prints, one
/// after the other, over as many lines as they take. `name` is what messages call the log. Throws
/// Error{input} naming it and the line for what is no record, for a record of a newer schema, and for a log
/// without records.
void read_log(const std::string& name, const std::string& text, LogRecords& to);

/// Throws Error{input}, naming the record, for the error of a member that is missing or of another type.
[[noreturn]] void refuse_record(const LogRecord& record, const nlohmann::json::exception& why);

}  // namespace gpumat
