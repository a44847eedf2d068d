#include <algorithm>
#include <cmath>

#include "core/text/printable.hpp"
#include "lib/record/json_values.hpp"
#include "lib/record/record.hpp"
#include "lib/record/stage_times.hpp"

namespace gpumat {
namespace {

using Json = nlohmann::ordered_json;

/// A whole number as an integer, so that counts of bytes read as such.
Json count(double value) {
    return value < 0x1p53 ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json scalar_json(const std::optional<Scalar>& scalar, const std::string& type) {
    const auto known = type_from_name(type);
    if (!scalar || !known) return {};
    if (is_integer(*known)) return scalar->integer;
    if (is_complex(*known))
        return Json::array({or_null(scalar->value.real()), or_null(scalar->value.imag())});
    return or_null(scalar->value.real());
}

Json device_json(const RecordedDevice& device) {
    return {{"kind", or_null(device.kind)},
            {"name", or_null(device.name)},
            {"threads", device.threads > 0 ? Json(device.threads) : Json()},
            {"compute_capability", or_null(device.compute_capability)},
            {"driver", or_null(device.driver)},
            {"runtime", or_null(device.runtime)},
            {"clock_mhz", or_null(device.clock_mhz)},
            {"memory_clock_mhz", or_null(device.memory_clock_mhz)},
            {"power_w", or_null(device.power_w)}};
}

Json conditions_json(const std::optional<RecordedConditions>& conditions) {
    if (!conditions) return {};
    return {{"clock_mhz", or_null(conditions->clock_mhz)},
            {"memory_clock_mhz", or_null(conditions->memory_clock_mhz)},
            {"power_w", or_null(conditions->power_w)},
            {"temperature_c", or_null(conditions->temperature_c)},
            {"throttling", or_null(conditions->throttling)},
            {"at_power_limit", conditions->at_power_limit}};
}

Json stages_json(const StageTimes& stages) {
    Json json;
    for (const auto& [name, member] : kStageTimes) json[std::string(name)] = or_null(stages.*member);
    return json;
}

Json timeline_json(const std::vector<StageTime>& stages) {
    Json list = Json::array();
    for (const StageTime& stage : stages) {
        list.push_back({{"name", stage.name},
                        {"begin_ms", or_null(stage.begin_ms)},
                        {"end_ms", or_null(stage.end_ms)},
                        {"busy_ms", or_null(stage.busy_ms)},
                        {"waiting_ms", or_null(stage.waiting_ms())}});
    }
    return list;
}

Json samples_json(const std::vector<double>& samples) {
    Json kernel = {
        {"samples", Json::array()}, {"median", or_null(median(samples))}, {"min", Json()}, {"max", Json()}};
    for (const double sample : samples) kernel["samples"].push_back(or_null(sample));
    if (samples.empty()) return kernel;
    kernel["min"] = or_null(*std::min_element(samples.begin(), samples.end()));
    kernel["max"] = or_null(*std::max_element(samples.begin(), samples.end()));
    return kernel;
}

/// `amount` a millisecond, in 10⁹ a second; null where nothing was timed or moved.
Json giga_per_second(double amount, const std::optional<double>& milliseconds) {
    if (!milliseconds || amount == 0) return {};
    return or_null(amount / (*milliseconds * 1e6));
}

}  // namespace

std::shared_ptr<const nlohmann::ordered_json> answer_of(const Matrix& result) {
    if (result.shape() != Shape{1, 1}) return nullptr;
    const auto real = [](double value) {
        if (std::isfinite(value)) return Json(value);
        return Json(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    };
    return std::make_shared<const Json>(visit_type(result.type(), [&]<class T>(TypeTag<T>) {
        const T value = *result.as<T>();
        if constexpr (std::is_integral_v<T>) {
            return Json(value);
        } else if constexpr (requires { value.imag(); }) {
            return Json::array({real(value.real()), real(value.imag())});
        } else {
            return real(static_cast<double>(value));
        }
    }));
}

std::string answer_text(const nlohmann::ordered_json& answer) {
    if (answer.is_array()) return answer_text(answer[0]) + "," + answer_text(answer[1]);
    return answer.is_string() ? answer.get<std::string>() : answer.dump();
}

nlohmann::ordered_json to_json(const RecordedMatrix& matrix) {
    const bool opened = !matrix.format.empty();
    Json json = {{"path", matrix.path},
                 {"dataset", or_null(matrix.dataset)},
                 {"format", or_null(matrix.format)},
                 {"rows", opened ? Json(matrix.rows) : Json()},
                 {"cols", opened ? Json(matrix.cols) : Json()},
                 {"type", or_null(matrix.type)},
                 {"bytes", opened ? Json(matrix.bytes) : Json()},
                 {"file_bytes", matrix.file_bytes ? Json(*matrix.file_bytes) : Json()},
                 {"hash", or_null(matrix.hash)},
                 {"packing", or_null(matrix.packing)},
                 {"unpacked", matrix.unpacked}};
    if (matrix.entries) {
        json["structure"] = "sparse";
        json["entries"] = *matrix.entries;
    }
    if (!matrix.values.empty()) json["values"] = matrix.values;
    return json;
}

nlohmann::ordered_json to_json(const RecordedEngine& engine) {
    Json stages = Json::array();
    for (const RecordedSpread& stage : engine.stages)
        stages.push_back({{"name", stage.name},
                          {"least_ms", or_null(stage.least_ms)},
                          {"median_ms", or_null(stage.median_ms)},
                          {"most_ms", or_null(stage.most_ms)}});
    return {{"name", engine.name},
            {"library", or_null(engine.library)},
            {"ranks", engine.ranks},
            {"grid", {engine.grid.first, engine.grid.second}},
            {"block_size", engine.block},
            {"hosts", engine.hosts},
            {"stages", std::move(stages)},
            {"bytes_sent", engine.bytes_sent},
            {"bytes_a_rank", engine.bytes_a_rank}};
}

nlohmann::ordered_json to_json(const Verification& verification) {
    Json json = {{"mode", verification.mode},
                 {"verdict", verification.verdict},
                 {"worst_ratio", or_null(verification.worst_ratio)},
                 {"expected_ratio", or_null(verification.expected_ratio)},
                 {"mismatches", verification.mismatches},
                 {"rows_recomputed", verification.rows_recomputed},
                 {"rms_error", or_null(verification.rms_error)},
                 {"detects", Json()},
                 {"worst", Json()},
                 {"wrapped", verification.wrapped},
                 {"note", or_null(verification.note)}};
    if (const auto& detects = verification.detects)
        json["detects"] = {{"absolute", or_null(detects->absolute)},
                           {"relative", or_null(detects->relative)}};
    if (const auto& worst = verification.worst) {
        json["worst"] = {{"row", worst->row},
                         {"col", worst->col},
                         {"computed", worst->computed},
                         {"expected", worst->expected},
                         {"error", or_null(worst->error)},
                         {"bound", or_null(worst->bound)}};
    }
    return json;
}

nlohmann::ordered_json to_json(const RunRecord& record) {
    const StageTime* const bounding = bounding_stage(record.stages);
    const auto middle = median(record.kernel_samples_ms);
    Json parameters = Json::object();
    for (const auto& [name, value] : record.parameters) parameters[name] = value;
    Json settings = Json::object();
    for (const auto& [name, value] : record.settings) settings[name] = value;
    Json conditions;
    if (record.before || record.after)
        conditions = {{"before", conditions_json(record.before)}, {"after", conditions_json(record.after)}};
    Json inputs = Json::array();
    for (const auto& input : record.inputs) inputs.push_back(to_json(input));
    Json json = {{"schema", "gpumat.run/1"}};
    add_origin(record.origin, json);
    json.update({
        {"command_line", record.command_line},
        {"op", record.op},
        {"level_requested", or_null(record.level_requested)},
        {"level", or_null(record.level)},
        {"level_reason", or_null(record.level_reason)},
        {"device", device_json(record.device)},
        {"conditions", conditions},
        {"parameters", parameters},
        {"type", or_null(record.type)},
        {"shape", {{"m", record.m}, {"n", record.n}, {"k", or_null(record.k)}}},
        {"alpha", scalar_json(record.alpha, record.type)},
        {"beta", scalar_json(record.beta, record.type)},
        {"settings", settings},
        {"repeat", record.repeat},
        {"warmup", record.warmup},
        {"seed", record.seed},
        {"inputs", inputs},
        {"output", record.output ? to_json(*record.output) : Json()},
        {"answer", record.answer ? *record.answer : Json()},
        {"stages_ms", stages_json(record.stages_ms)},
        {"stages", timeline_json(record.stages)},
        {"bounded_by", bounding == nullptr ? Json() : Json(bounding->name)},
        {"parts", record.parts},
        {"kernel_ms", samples_json(record.kernel_samples_ms)},
        {"kernel_bytes", count(record.kernel_bytes)},
        {"kernel_flops", count(record.kernel_flops)},
        {"effective_bandwidth_gbps", giga_per_second(record.kernel_bytes, middle)},
        {"gflops", giga_per_second(record.kernel_flops, middle)},
        {"fraction_of_bound", or_null(record.fraction_of_bound)},
        {"bound", or_null(record.bound)},
        {"bound_ms", or_null(record.bound_ms)},
        {"dry_run", record.dry_run},
        {"peak_host_bytes", or_null(record.peak_host_bytes)},
        {"peak_device_bytes", or_null(record.peak_device_bytes)},
        {"verification", to_json(record.verification)},
        {"error", or_null(record.error)},
        {"exit_code", record.exit_code},
    });
    if (record.engine) json["engine"] = to_json(*record.engine);
    return json;
}

std::string json_text(const Json& json, int indent) {
    return printable_json(json.dump(indent, ' ', false, Json::error_handler_t::replace));
}

std::string json_line(const Json& json) {
    return json_text(json, -1);
}

}  // namespace gpumat
