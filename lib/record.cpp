#include "lib/record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <system_error>

#include "lib/core/error.hpp"
#include "lib/version.hpp"

namespace gpumat {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json();
}

template <class T>
Json optional(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}
Json optional(const std::optional<double>& value) {
    return value ? number(*value) : Json();
}

Json text(const std::string& value) {
    return value.empty() ? Json() : Json(value);
}

/// A whole number as an integer, so that counts of bytes read as such.
Json count(double value) {
    return value < 0x1p53 ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json scalar_json(const std::optional<Scalar>& scalar, const std::string& type) {
    const auto known = type_from_name(type);
    if (!scalar || !known) return {};
    if (is_integer(*known)) return scalar->integer;
    if (is_complex(*known)) return Json::array({number(scalar->value.real()), number(scalar->value.imag())});
    return number(scalar->value.real());
}

Json device_json(const RecordedDevice& device) {
    return {{"kind", text(device.kind)},
            {"name", text(device.name)},
            {"threads", device.threads > 0 ? Json(device.threads) : Json()},
            {"compute_capability", text(device.compute_capability)},
            {"driver", text(device.driver)},
            {"runtime", text(device.runtime)},
            {"clock_mhz", optional(device.clock_mhz)},
            {"memory_clock_mhz", optional(device.memory_clock_mhz)},
            {"power_w", optional(device.power_w)}};
}

Json matrix_json(const RecordedMatrix& matrix) {
    return {{"path", matrix.path},     {"dataset", text(matrix.dataset)},
            {"format", matrix.format}, {"rows", matrix.rows},
            {"cols", matrix.cols},     {"type", matrix.type},
            {"bytes", matrix.bytes},   {"hash", text(matrix.hash)}};
}

Json stages_json(const StageTimes& stages) {
    return {{"read", optional(stages.read)},     {"host_to_device", optional(stages.host_to_device)},
            {"kernel", optional(stages.kernel)}, {"device_to_host", optional(stages.device_to_host)},
            {"verify", optional(stages.verify)}, {"write", optional(stages.write)},
            {"total", optional(stages.total)}};
}

Json samples_json(const std::vector<double>& samples) {
    Json kernel = {
        {"samples", Json::array()}, {"median", optional(median(samples))}, {"min", Json()}, {"max", Json()}};
    for (const double sample : samples) kernel["samples"].push_back(number(sample));
    if (samples.empty()) return kernel;
    kernel["min"] = number(*std::min_element(samples.begin(), samples.end()));
    kernel["max"] = number(*std::max_element(samples.begin(), samples.end()));
    return kernel;
}

/// `amount` a millisecond, in 10⁹ a second; null where nothing was timed or moved.
Json giga_per_second(double amount, const std::optional<double>& milliseconds) {
    if (!milliseconds || amount == 0) return {};
    return number(amount / (*milliseconds * 1e6));
}

Json verification_json(const Verification& verification) {
    Json json = {{"mode", verification.mode},
                 {"verdict", verification.verdict},
                 {"worst_ratio", number(verification.worst_ratio)},
                 {"mismatches", verification.mismatches},
                 {"worst", Json()},
                 {"wrapped", verification.wrapped},
                 {"note", text(verification.note)}};
    if (const auto& worst = verification.worst) {
        json["worst"] = {{"row", worst->row},
                         {"col", worst->col},
                         {"computed", worst->computed},
                         {"expected", worst->expected},
                         {"error", number(worst->error)},
                         {"bound", number(worst->bound)}};
    }
    return json;
}

// ---- CSV ------------------------------------------------------------------------------------------------

/// A field as RFC 4180 writes it. A JSON string is written without its quotes, null as nothing, a list as its
/// JSON text.
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
        if (value.is_object() && key != "parameters") {
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
    line.back() = '\r';
    return line + '\n';
}

std::vector<std::pair<std::string, Json>> csv_columns(const RunRecord& record) {
    Json json = to_json(record);
    Json inputs = Json::object();
    for (std::size_t i = 0; i < kCsvInputs; ++i) {
        const bool present = i < record.inputs.size();
        Json input = matrix_json(present ? record.inputs[i] : RecordedMatrix{});
        if (!present) {
            for (auto& value : input) value = nullptr;
        }
        inputs[std::to_string(i)] = std::move(input);
    }
    json["inputs"] = std::move(inputs);
    if (!record.output) {
        json["output"] = matrix_json({});
        for (auto& value : json["output"]) value = nullptr;
    }
    if (!record.verification.worst) {
        for (const char* name : {"row", "col", "computed", "expected", "error", "bound"}) {
            json["verification"]["worst"][name] = nullptr;
        }
    }
    std::vector<std::pair<std::string, Json>> columns;
    flatten(json, "", columns);
    return columns;
}

// ---- Appending ------------------------------------------------------------------------------------------

[[noreturn]] void fail(const std::string& path, int error_number) {
    throw Error(error_number == EPIPE ? ErrorCode::closed_pipe : ErrorCode::output,
                "cannot append to the log " + path + ": " +
                    std::error_code(error_number, std::generic_category()).message());
}

/// Writes everything in one call; the rest only where the system took a part of it. Returns errno, or 0.
int write_all(int descriptor, const std::string& data) {
    std::size_t done = 0;
    while (done < data.size()) {
        const ssize_t written = write(descriptor, data.data() + done, data.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        done += static_cast<std::size_t>(written);
    }
    return 0;
}

/// An open file, closed with the object.
class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(number_); }
    [[nodiscard]] int number() const { return number_; }

  private:
    int number_;
};

std::string read_at(int descriptor, off_t offset, std::size_t bytes) {
    std::string data(bytes, '\0');
    const ssize_t got = pread(descriptor, data.data(), bytes, offset);
    data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return data;
}

/// Appends `line` to a regular file under a lock, with `header` first where the file is empty. A line that
/// an interrupted writer left open is ended first. On failure the file is as it was.
void append_to_file(int descriptor, const std::string& path, const std::string& header, std::string line) {
    while (flock(descriptor, LOCK_EX) != 0) {
        if (errno != EINTR) fail(path, errno);
    }
    struct stat present = {};
    if (fstat(descriptor, &present) != 0) fail(path, errno);
    const off_t size = present.st_size;
    if (size == 0) {
        line.insert(0, header);
    } else {
        if (read_at(descriptor, 0, header.size()) != header) {
            throw Error(ErrorCode::output,
                        "cannot append to the log " + path +
                            ": its first line is not the header of this version's columns");
        }
        if (read_at(descriptor, size - 1, 1) != "\n") line.insert(0, "\n");
    }
    if (const int error_number = write_all(descriptor, line); error_number != 0) {
        if (ftruncate(descriptor, size) != 0) fail(path, errno);
        fail(path, error_number);
    }
}

}  // namespace

RunRecord start_record() {
    RunRecord record;
    const std::time_t now = std::time(nullptr);
    std::tm utc = {};
    gmtime_r(&now, &utc);
    std::array<char, 32> time{};
    std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
    record.time = time.data();
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0) record.host = host.data();
    record.version = version();
    return record;
}

std::optional<double> median(std::vector<double> samples) {
    if (samples.empty()) return std::nullopt;
    std::sort(samples.begin(), samples.end());
    const std::size_t middle = samples.size() / 2;
    if (samples.size() % 2 == 1) return samples[middle];
    return samples[middle - 1] + (samples[middle] - samples[middle - 1]) / 2;
}

nlohmann::ordered_json to_json(const RunRecord& record) {
    const auto middle = median(record.kernel_samples_ms);
    Json parameters = Json::object();
    for (const auto& [name, value] : record.parameters) parameters[name] = value;
    Json inputs = Json::array();
    for (const auto& input : record.inputs) inputs.push_back(matrix_json(input));
    const Json json = {
        {"schema", "gpumat.run/1"},
        {"time", record.time},
        {"command_line", record.command_line},
        {"version", record.version},
        {"host", record.host},
        {"op", record.op},
        {"level_requested", text(record.level_requested)},
        {"level", text(record.level)},
        {"level_reason", text(record.level_reason)},
        {"device", device_json(record.device)},
        {"parameters", parameters},
        {"type", text(record.type)},
        {"shape", {{"m", record.m}, {"n", record.n}, {"k", optional(record.k)}}},
        {"alpha", scalar_json(record.alpha, record.type)},
        {"beta", scalar_json(record.beta, record.type)},
        {"inputs", inputs},
        {"output", record.output ? matrix_json(*record.output) : Json()},
        {"stages_ms", stages_json(record.stages_ms)},
        {"kernel_ms", samples_json(record.kernel_samples_ms)},
        {"kernel_bytes", count(record.kernel_bytes)},
        {"kernel_flops", count(record.kernel_flops)},
        {"effective_bandwidth_gbps", giga_per_second(record.kernel_bytes, middle)},
        {"gflops", giga_per_second(record.kernel_flops, middle)},
        {"fraction_of_bound", optional(record.fraction_of_bound)},
        {"bound", text(record.bound)},
        {"bound_ms", optional(record.bound_ms)},
        {"dry_run", record.dry_run},
        {"peak_host_bytes", optional(record.peak_host_bytes)},
        {"peak_device_bytes", optional(record.peak_device_bytes)},
        {"verification", verification_json(record.verification)},
        {"error", text(record.error)},
        {"exit_code", record.exit_code},
    };
    // Paths may hold any bytes, JSON only UTF-8: what is not becomes U+FFFD, so that the object can be
    // printed whatever it holds.
    return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void append_record(const std::string& path, const RunRecord& record) {
    const std::string json_line = to_json(record).dump() + "\n";
    if (path == "-") {
        if (const int error_number = write_all(STDOUT_FILENO, json_line); error_number != 0) {
            fail("-", error_number);
        }
        return;
    }
    const bool csv = path.ends_with(".csv");
    const auto columns = csv ? csv_columns(record) : std::vector<std::pair<std::string, Json>>{};
    const std::string header = csv ? csv_line(columns, true) : "";
    const std::string line = csv ? csv_line(columns, false) : json_line;

    struct stat present = {};
    const bool special = stat(path.c_str(), &present) == 0 && !S_ISREG(present.st_mode);
    const int access_mode = special ? O_WRONLY : O_RDWR | O_CREAT;
    const int opened = open(path.c_str(), access_mode | O_APPEND | O_CLOEXEC, 0666);
    if (opened < 0) fail(path, errno);
    const Descriptor descriptor(opened);
    if (!special) return append_to_file(descriptor.number(), path, header, line);
    if (const int error_number = write_all(descriptor.number(), header + line); error_number != 0) {
        fail(path, error_number);
    }
}

}  // namespace gpumat
