#include "lib/record/file_record.hpp"

#include "lib/record/json_values.hpp"

namespace gpumat {

FileRecord start_file_record(const std::string& op, const std::string& command_line) {
    FileRecord record;
    record.op = op;
    record.origin = origin_of_this_run();
    record.command_line = command_line;
    return record;
}

nlohmann::ordered_json to_json(const FileRecord& record) {
    nlohmann::ordered_json json = {{"schema", "gpumat." + record.op + "/1"}};
    add_origin(record.origin, json);
    json["command_line"] = record.command_line;
    json["op"] = record.op;
    if (record.asked) json.update(*record.asked);
    json["inputs"] = nlohmann::ordered_json::array();
    for (const RecordedMatrix& input : record.inputs) json["inputs"].push_back(to_json(input));
    json["output"] = record.output ? to_json(*record.output) : nlohmann::ordered_json();
    json["stages_ms"] = {{"read", or_null(record.read_ms)},
                         {"write", or_null(record.write_ms)},
                         {"total", or_null(record.total_ms)}};
    json["error"] = or_null(record.error);
    json["exit_code"] = record.exit_code;
    if (record.engine) json["engine"] = to_json(*record.engine);
    return json;
}

}  // namespace gpumat
