#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/record/record.hpp"

namespace gpumat {
namespace {

using Json = nlohmann::ordered_json;

/// A field as RFC 4180 writes it. A JSON string is written without its quotes, null as nothing, a list as its
std::string csv_field(const Json& value) {
    if (value.is_null()) return "";
    std::string raw = value.is_string() ? value.get<std::string>() : value.dump();
    if (raw.find_first_of(",\"\r\n") == std::string::npos) return raw;
    std::string quoted = "\"";
    for (const char c : raw) {
        if (c == '"') quoted += '"';
        quoted += c;
    }
    return quoted + "\"";
}

/// How many inputs have columns of their own; a multiply has A, B and D.
constexpr std::size_t kCsvInputs = 3;

/// The record as a flat list of columns: nested names joined by '.'. The columns are the same for each
/// record.
void flatten(const Json& json, const std::string& prefix,
             std::vector<std::pair<std::string, Json>>& columns) {
    for (const auto& [key, value] : json.items()) {
        const std::string name = prefix.empty() ? key : std::string(prefix).append(".").append(key);
        if (value.is_object() && key != "parameters" && key != "settings" && key != "conditions") {
            flatten(value, name, columns);
        } else {
            columns.emplace_back(name, value);
        }
    }
}

std::string csv_line(const std::vector<std::pair<std::string, Json>>& columns, bool names) {
    std::string line;
    for (const auto& [name, value] : columns) {
        line += (names ? csv_field(name) : csv_field(value)) + ',';
    }
    line.back() = '\n';
    return line;
}

/// With the columns that only sparse matrices fill.
void complete(Json& matrix) {
    for (const char* name : {"structure", "entries", "values"}) {
        if (!matrix.contains(name)) matrix[name] = nullptr;
    }
}

std::vector<std::pair<std::string, Json>> csv_columns(const RunRecord& record) {
    Json json = to_json(record);
    Json inputs = Json::object();
    for (std::size_t i = 0; i < kCsvInputs; ++i) {
        const bool present = i < record.inputs.size();
        Json input = to_json(present ? record.inputs[i] : RecordedMatrix{});
        if (!present) {
            for (auto& value : input) value = nullptr;
        }
        complete(input);
        inputs[std::to_string(i)] = std::move(input);
    }
    json["inputs"] = std::move(inputs);
    if (!record.output) {
        json["output"] = to_json(RecordedMatrix{});
        for (auto& value : json["output"]) value = nullptr;
    }
    complete(json["output"]);
    if (!record.verification.detects) {
        for (const char* name : {"absolute", "relative"}) json["verification"]["detects"][name] = nullptr;
    }
    if (!record.verification.worst) {
        for (const char* name : {"row", "col", "computed", "expected", "error", "bound"}) {
            json["verification"]["worst"][name] = nullptr;
        }
    }
    std::vector<std::pair<std::string, Json>> columns;
    flatten(Json::parse(json_line(json)), "", columns);  // in UTF-8
    return columns;
}

}  // namespace

std::string csv_header() {
    return csv_line(csv_columns(RunRecord{}), true);
}

std::string csv_row(const RunRecord& record) {
    return csv_line(csv_columns(record), false);
}

}  // namespace gpumat
