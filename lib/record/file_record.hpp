#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/record/record.hpp"

namespace gpumat {

/// What a command made that writes a matrix without computing one: `gpumat.generate/1`, `gpumat.convert/1`.
/// Filled while the command goes on, as a RunRecord is.
struct FileRecord {
    std::string op;  ///< "generate", "convert"
    Origin origin;
    std::string command_line;
    std::shared_ptr<const nlohmann::ordered_json> asked;  ///< an object of what only this command has
    std::vector<RecordedMatrix> inputs;
    std::optional<RecordedMatrix> output;
    std::optional<RecordedEngine> engine;  ///< absent: this process did it alone
    std::optional<double> read_ms;         ///< reading or making the blocks
    std::optional<double> write_ms;        ///< beside it
    std::optional<double> total_ms;
    std::string error;
    int exit_code = 0;
};

/// Hears the record with its output before that gets its name.
using FileRecordListener = std::function<void(const FileRecord&)>;

/// A record of now and here.
FileRecord start_file_record(const std::string& op, const std::string& command_line);

nlohmann::ordered_json to_json(const FileRecord& record);

}  // namespace gpumat
