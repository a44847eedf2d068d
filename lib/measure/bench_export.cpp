#include "lib/measure/bench_export.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "core/memory.hpp"
#include "lib/record/json_values.hpp"
#include "lib/record/record.hpp"

namespace gpumat {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::ptrdiff_t kEntriesColumn = 4;  ///< of the table, where any input is sparse

Json verdict(const BenchRow& row) {
    return row.ran_at_all() ? Json(row.verification.verdict) : Json();
}

Json to_json(const BenchHead& head) {
    const RecordedDevice& device = head.device;
    Json json = {{"kind", device.kind},
                 {"name", device.name},
                 {"threads", device.threads > 0 ? Json(device.threads) : Json()}};
    if (device.kind != "cpu") {
        json["compute_capability"] = device.compute_capability;
        json["driver"] = device.driver;
        json["driver_release"] = or_null(head.driver_release);
        json["runtime"] = device.runtime;
        json["clock_mhz"] = or_null(device.clock_mhz);
        json["memory_clock_mhz"] = or_null(device.memory_clock_mhz);
        json["power_w"] = or_null(device.power_w);
    }
    json["cache_bytes"] = head.cache_bytes;
    return json;
}

std::string number_or_dash(const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string spread_of(const BenchRow& row) {
    if (!row.low_ms || !row.high_ms) return "-";
    const double median = *row.median_ms;
    return fmt::format("{:.1f} %", 100 * std::max(*row.high_ms - median, median - *row.low_ms) / median);
}

std::string verified(const BenchRow& row) {
    if (!row.ran_at_all()) return "-";
    if (row.failed()) return "FAILED";
    return row.verification.mode == "none" ? "no" : "yes (" + row.verification.mode + ")";
}

std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

std::string csv_text(const Json& value) {
    if (value.is_null()) return "";
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_structured()) return value.dump();
    std::string text;
    for (const auto& [key, item] : value.items()) {
        if (!text.empty()) text += ";";
        text += (value.is_object() ? key + "=" : "") + csv_text(item);
    }
    return text;
}

/// The share of that yardstick, where it is the operation's.
Json share_of(const BenchRow& row, std::string_view yardstick) {
    return row.operation != nullptr && row.operation->yardstick == yardstick ? or_null(row.share) : Json();
}

/// A row with what it shares with the others of its bench, named as in the JSON: nested names joined by '.'.
Json csv_members(const BenchHead& head, const BenchRow& row) {
    const RecordedDevice& device = head.device;
    Json members = {{"time", head.time},
                    {"version", head.version},
                    {"host", head.host},
                    {"cache", head.hot ? "hot" : "cold"},
                    {"device.kind", device.kind},
                    {"device.name", device.name},
                    {"device.threads", device.threads > 0 ? Json(device.threads) : Json()}};
    members.update(to_json(row));
    return members;
}

/// "~" marks a gain that is not known well.
std::string gain_text(const std::optional<double>& gain, const std::optional<bool>& settled) {
    return (gain && !settled.value_or(false) ? "~" : "") + number_or_dash(gain, "{:.2f}x");
}

std::string markdown_line(const std::vector<std::string>& cells) {
    std::string line = "|";
    for (const std::string& cell : cells) {
        line += " ";
        for (const char c : cell) line += c == '|' ? std::string("\\|") : std::string(1, c);
        line += " |";
    }
    return line + "\n";
}

}  // namespace

std::string four_digits(double value) {
    if (value <= 0) return "0";
    const int before_point = static_cast<int>(std::floor(std::log10(value))) + 1;
    return fmt::format("{:.{}f}", value, std::clamp(4 - before_point, 0, 9));
}

Json to_json(const BenchRow& row) {
    Json details = Json::object();
    for (const auto& [name, value] : row.details) details[name] = value;
    return {{"op", row.operation == nullptr ? "" : row.operation->name},
            {"level", row.level},
            {"level_run", or_null(row.ran)},
            {"baseline", row.baseline},
            {"in_place", row.in_place},
            {"parameters", row.parameters.empty() ? Json::object() : Json(row.parameters)},
            {"settings", row.settings.empty() ? Json::object() : Json(row.settings)},
            {"type", name_of(row.type)},
            {"m", row.size.m},
            {"n", row.size.n},
            {"k", row.size.k > 0 ? Json(row.size.k) : Json()},
            {"median_ms", or_null(row.median_ms)},
            {"low_ms", or_null(row.low_ms)},
            {"high_ms", or_null(row.high_ms)},
            {"effective_bandwidth_gbps", or_null(row.effective_bandwidth_gbps)},
            {"gflops", or_null(row.gflops)},
            {"entries", or_null(row.entries)},
            {"result_entries", or_null(row.result_entries)},
            {"entries_per_s", or_null(row.entries_per_s)},
            {"share_of_copy", share_of(row, "copy")},
            {"share_of_read", share_of(row, "read")},
            {"share_of_vendor", or_null(row.share_of_vendor)},
            {"gain_over_previous", or_null(row.gain_over_previous)},
            {"gain_over_first", or_null(row.gain_over_first)},
            {"settled", or_null(row.settled)},
            {"gain_over_previous_settled", or_null(row.gain_over_previous_settled)},
            {"gain_over_first_settled", or_null(row.gain_over_first_settled)},
            {"verification", row.ran_at_all() ? Json(row.verification.mode) : Json()},
            {"verdict", verdict(row)},
            {"reason", or_null(row.reason)},
            {"note", or_null(row.note)},
            {"clock_mhz", or_null(row.clock_mhz)},
            {"power_w", or_null(row.power_w)},
            {"details", std::move(details)},
            {"samples_discarded", row.discarded},
            {"samples_ms", row.samples_ms}};
}

std::string json_begin(const BenchHead& head) {
    // The rows come last, so that the object can be ended at any time.
    Json json = {{"schema", "gpumat.bench/1"},
                 {"time", head.time},
                 {"command", head.command_line},
                 {"version", head.version},
                 {"host", head.host},
                 {"op", name_of(*head.operation)},
                 {"in_place", head.in_place},
                 {"settings", head.settings.empty() ? Json::object() : Json(head.settings)},
                 {"cache", head.hot ? "hot" : "cold"},
                 {"time_limit_s", head.time_limit_s},
                 {"device", to_json(head)}};
    std::string text = json_line(json);
    text.pop_back();
    return text + ", \"rows\": [";
}

std::string json_row(const BenchRow& row, bool first) {
    return (first ? "\n" : ",\n") + json_line(to_json(row));
}

const char* json_end() {
    return "\n]}\n";
}

std::string csv_begin(const BenchHead& head) {
    std::string line;
    const Json members = csv_members(head, BenchRow{});
    for (const auto& [key, value] : members.items()) line += (line.empty() ? "" : ",") + key;
    return line + "\n";
}

std::string csv_row(const BenchHead& head, const BenchRow& row) {
    std::string line;
    const Json members = csv_members(head, row);
    for (const auto& [key, value] : members.items()) line += csv_field(csv_text(value)) + ",";
    line.back() = '\n';
    return line;
}

std::vector<std::string> table_header(const BenchHead& head) {
    const bool sparse = !head.sparse.empty();
    std::vector<std::string> header = {"problem",
                                       "level",
                                       "time (ms)",
                                       "+-",
                                       sparse || head.operation->rate == Rate::bandwidth ? "GB/s" : "GFLOP/s",
                                       "of " + std::string(sparse ? "vendor" : head.operation->yardstick),
                                       "gain",
                                       "total gain",
                                       "verified"};
    if (sparse) header.insert(header.begin() + kEntriesColumn, "Mentries/s");
    return header;
}

std::vector<std::string> table_cells(const BenchRow& row) {
    const auto speed = row.speed();
    std::vector<std::string> cells = {std::string(name_of(row.type)) + " " + to_string(row.size),
                                      label_of(row),
                                      row.median_ms ? four_digits(*row.median_ms) : "-",
                                      spread_of(row),
                                      speed ? four_digits(*speed) : "-",
                                      number_or_dash(row.entries ? row.share_of_vendor : row.share, "{:.3f}"),
                                      gain_text(row.gain_over_previous, row.gain_over_previous_settled),
                                      gain_text(row.gain_over_first, row.gain_over_first_settled),
                                      verified(row)};
    if (row.entries)
        cells.insert(cells.begin() + kEntriesColumn,
                     row.entries_per_s ? four_digits(*row.entries_per_s / 1e6) : "-");
    return cells;
}

std::string table_remark(const BenchRow& row) {
    return row.ran_at_all() ? row.note : "cannot run: " + row.reason;
}

std::string describe(const BenchHead& head) {
    const RecordedDevice& device = head.device;
    std::string text = std::string(name_of(*head.operation)) +
                       (head.sparse.empty() ? "" : " of " + head.sparse) +
                       (head.in_place ? " in place on " : " on ") + device.name;
    if (device.kind == "cpu") {
        text += fmt::format(" ({} thread{})", device.threads, device.threads == 1 ? "" : "s");
    } else {
        const std::string& driver = head.driver_release.empty() ? device.driver : head.driver_release;
        text += fmt::format(" (compute capability {}, driver {}, CUDA {}, {} MHz, memory {} MHz)",
                            device.compute_capability, driver, device.runtime, device.clock_mhz.value_or(0),
                            device.memory_clock_mhz.value_or(0));
    }
    return text + (head.hot ? ", hot cache" : ", cold cache of " + format_bytes(head.cache_bytes)) + ", " +
           head.time + ", gpumat " + head.version;
}

std::string markdown_begin(const BenchHead& head) {
    std::vector<std::string> header = table_header(head);
    header.emplace_back("remark");
    std::vector<std::string> rule;
    for (std::size_t i = 0; i < header.size(); ++i)
        rule.emplace_back(i >= 2 && i + 2 < header.size() ? "---:" : "---");
    return describe(head) + "\n\n" + markdown_line(header) + markdown_line(rule);
}

std::string markdown_row(const BenchRow& row) {
    std::vector<std::string> cells = table_cells(row);
    cells.push_back(table_remark(row));
    return markdown_line(cells);
}

}  // namespace gpumat
