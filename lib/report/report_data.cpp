#include "lib/report/report_data.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "lib/measure/bench.hpp"
#include "lib/measure/bench_sampling.hpp"
#include "lib/record/record.hpp"
#include "lib/report/report_log.hpp"
#include "lib/run/executor.hpp"

namespace gpumat {
namespace {

using LoggedJson = nlohmann::json;

/// The properties of the environment that records have, as JSON pointers.
constexpr std::array kFacts = {"/version",
                               "/host",
                               "/device/kind",
                               "/device/name",
                               "/device/threads",
                               "/device/compute_capability",
                               "/device/driver",
                               "/device/driver_release",
                               "/device/runtime",
                               "/device/clock_mhz",
                               "/device/memory_clock_mhz",
                               "/device/cache_bytes",
                               "/cache",
                               "/build/commit",
                               "/build/type",
                               "/build/compiler",
                               "/build/cuda",
                               "/build/hdf5",
                               "/processor/name",
                               "/processor/affinity"};

std::string text_at(const LoggedJson& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? "" : found->get<std::string>();
}

std::optional<double> number_at(const LoggedJson& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return std::nullopt;
    return found->get<double>();
}

std::optional<bool> flag_at(const LoggedJson& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return std::nullopt;
    return found->get<bool>();
}

/// A time or a rate, which can be divided by.
std::optional<double> positive_at(const LoggedJson& object, const char* name) {
    const auto value = number_at(object, name);
    return value && *value > 0 ? value : std::nullopt;
}

std::int64_t integer_at(const LoggedJson& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? 0 : found->get_ref<const std::int64_t&>();
}

std::vector<double> samples_at(const LoggedJson& object, const char* name) {
    std::vector<double> samples;
    for (const LoggedJson& sample : object.value(name, LoggedJson::array())) {
        if (sample.is_number() && sample.get<double>() > 0) samples.push_back(sample.get<double>());
    }
    return samples;
}

const LoggedJson& object_at(const LoggedJson& object, const char* name) {
    static const LoggedJson none = LoggedJson::object();
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? none : *found;
}

Extents size_at(const LoggedJson& shape) {
    return {integer_at(shape, "m"), integer_at(shape, "n"), integer_at(shape, "k")};
}

/// The problem of a run; of what is no operation, the matrix that it wrote or read.
Extents size_of_run(const LoggedJson& record) {
    if (record.contains("shape")) return size_at(object_at(record, "shape"));
    const LoggedJson& inputs = object_at(record, "inputs");
    const LoggedJson& output = object_at(record, "output");
    const LoggedJson& matrix = output.empty() && inputs.is_array() && !inputs.empty() ? inputs[0] : output;
    return {integer_at(matrix, "rows"), integer_at(matrix, "cols")};
}

/// " op=norm axis=all".
std::string settings_of(const LoggedJson& record) {
    std::string text;
    for (const auto& [name, value] : object_at(record, "settings").items())
        text += " " + name + "=" + value.get<std::string>();
    return text;
}

/// What a whole run did besides its kernel, once: " hdf5 to matrix-market verify=full repeat=5".
std::string besides_kernel(const LoggedJson& record) {
    std::string text;
    for (const LoggedJson& input : record.value("inputs", LoggedJson::array())) {
        const std::string format = text_at(input, "format");
        if (text.find(format) == std::string::npos) text += " " + format;
    }
    if (const std::string format = text_at(object_at(record, "output"), "format"); !format.empty())
        text += " to " + format;
    if (const std::string mode = text_at(object_at(record, "verification"), "mode"); !mode.empty())
        text += " verify=" + mode;
    for (const auto& [name, usual] : {std::pair{"warmup", 0}, std::pair{"repeat", 1}}) {
        if (const std::int64_t times = integer_at(record, name); times > usual)
            text += fmt::format(" {}={}", name, times);
    }
    return text;
}

/// A job of a batch has its text.
std::string command_line_of(const LoggedJson& record) {
    std::string line = text_at(record, "command_line");
    if (line.empty() && record.contains("job")) line = "gpumat " + text_at(record["job"], "text");
    return line;
}

std::string fact_text(const LoggedJson& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string matrix_name(const LoggedJson& matrix) {
    return formats::to_string({text_at(matrix, "path"), text_at(matrix, "dataset")});
}

/// What `verify` found wrong.
std::string wrong_result(const LoggedJson& record) {
    const LoggedJson& logged = object_at(record, "verification");
    const LoggedJson& result = object_at(record, "result");
    Verification found = {.mode = text_at(logged, "mode"),
                          .expected_ratio = number_at(logged, "expected_ratio").value_or(INFINITY),
                          .mismatches = integer_at(logged, "mismatches"),
                          .note = text_at(logged, "note")};
    if (const LoggedJson& worst = object_at(logged, "worst"); !worst.empty()) {
        found.worst = {.row = integer_at(worst, "row"),
                       .col = integer_at(worst, "col"),
                       .computed = text_at(worst, "computed"),
                       .expected = text_at(worst, "expected")};
    }
    std::vector<std::string> inputs;
    for (const LoggedJson& input : object_at(record, "inputs")) inputs.push_back(matrix_name(input));
    return fmt::format("{} is not the {} of {}: {}", matrix_name(result), text_at(record, "op"),
                       fmt::join(inputs, " and "),
                       describe_failure(found, {integer_at(result, "rows"), integer_at(result, "cols")}));
}

/// What `compare` found to differ.
std::string difference(const LoggedJson& record) {
    const LoggedJson& listed = object_at(record, "differences");
    std::string text = fmt::format("{} and {} differ: {} of {} elements", matrix_name(object_at(record, "x")),
                                   matrix_name(object_at(record, "y")), integer_at(record, "differing"),
                                   integer_at(record, "elements"));
    if (listed.empty()) return text;
    const LoggedJson& first = listed.front();
    return text + fmt::format("; the first is row {}, column {}: {} and {}", integer_at(first, "row") + 1,
                              integer_at(first, "col") + 1, fact_text(first.at("x")),
                              fact_text(first.at("y")));
}

/// Where `compare` compared two files, matrix by matrix.
std::string difference_of_files(const LoggedJson& record) {
    const LoggedJson& pairs = record.at("pairs");
    const auto unequal = [](const LoggedJson& pair) { return integer_at(pair, "exit_code") != 0; };
    return fmt::format("{} and {} differ: {} of {} matrices", matrix_name(object_at(record, "x")),
                       matrix_name(object_at(record, "y")), std::ranges::count_if(pairs, unequal),
                       pairs.size());
}

/// Why a record's exit code is not 0.
std::string failure_of(const LoggedJson& record) {
    if (text_at(object_at(record, "verification"), "verdict") == "failed" && record.contains("result"))
        return wrong_result(record);
    if (record.contains("differing")) return difference(record);
    const std::string error = text_at(record, "error");
    if (error.empty() && record.contains("pairs")) return difference_of_files(record);
    return error.empty() ? text_at(record, "verdict") : error;
}

class Collector {
  public:
    explicit Collector(const Registry& registry) : registry_(registry) {}

    void take(const LogRecord& record) {
        const std::string schema = record.json["schema"];
        note_facts(record.json);
        if (record.json.contains("rows") && record.json.contains("cache")) {
            take_bench(record);
        } else if (record.json.contains("probes")) {
            take_probes(record.json);
        } else if (record.json.contains("exit_code") && record.json.contains("op")) {
            take_run(record);
        } else if (integer_at(record.json, "exit_code") != 0) {
            note_failure(record.source, record.json);
        }
    }

    LogData finish() {
        for (Measured& one : data_.measured) {
            take_times(one);
            settle_repeats(one);
        }
        for (const Key& key : failed_) {
            if (const auto found = places_.find(key); found != places_.end())
                data_.measured[found->second].failed = true;
        }
        return std::move(data_);
    }

  private:
    /// Median and interval of the samples.
    static void take_times(Measured& one) {
        if (one.samples_ms.empty()) return;
        one.median_ms = median(one.samples_ms);
        one.interval_ms.reset();
        if (const auto interval = median_interval(one.samples_ms))
            one.interval_ms = Range{interval->low, interval->high};
    }

    /// Puts together the repeats that have too few samples for an interval, and leaves out those without a
    /// time.
    static void settle_repeats(Measured& one) {
        std::vector<Measured> settled;
        Measured rest = one;
        rest.repeats.clear();
        rest.samples_ms.clear();
        for (Measured& repeat : one.repeats) {
            take_times(repeat);
            if (repeat.interval_ms) {
                settled.push_back(std::move(repeat));
            } else {
                rest.samples_ms.insert(rest.samples_ms.end(), repeat.samples_ms.begin(),
                                       repeat.samples_ms.end());
            }
        }
        take_times(rest);
        if (!rest.samples_ms.empty()) settled.push_back(std::move(rest));
        one.repeats = std::move(settled);
    }

    void note_facts(const LoggedJson& record) {
        for (const char* const pointer : kFacts) {
            const LoggedJson::json_pointer place(pointer);
            if (!record.contains(place) || !record.at(place).is_primitive() || record.at(place).is_null())
                continue;
            std::string name = pointer + 1;
            std::ranges::replace(name, '/', '.');
            auto fact = std::ranges::find(data_.facts, name, &std::pair<std::string, FactValues>::first);
            if (fact == data_.facts.end()) fact = data_.facts.insert(fact, {name, {}});
            ++fact->second[fact_text(record.at(place))];
        }
    }

    /// What a record says of where it ran.
    void put_device(const LoggedJson& record, Measured& one) {
        const LoggedJson& device = object_at(record, "device");
        one.device = text_at(device, "name");
        one.threads = static_cast<int>(integer_at(device, "threads"));
        const Operation* const operation = registry_.operation(one.op);
        one.by_arithmetic = operation != nullptr ? operation->rate == Rate::arithmetic : one.flops > 0;
    }

    void take_bench(const LogRecord& record) {
        for (const LoggedJson& row : record.json["rows"]) take_row(record, row);
    }

    void take_row(const LogRecord& record, const LoggedJson& row) {
        Parameters parameters;
        for (const auto& [name, value] : object_at(row, "parameters").items())
            parameters[name] = value.get<std::string>();
        Measured one = {.what = "kernel", .op = text_at(row, "op"), .level = text_at(row, "level")};
        one.baseline = row.value("baseline", false);
        one.label = gpumat::label_of(one.level, one.level == "auto" ? Parameters{} : parameters) +
                    (row.value("in_place", false) ? " in place" : "") +
                    settings_of(one.baseline ? row : record.json);
        one.type = text_at(row, "type");
        one.size = size_at(row);
        one.cache = text_at(record.json, "cache");
        one.samples_ms = samples_at(row, "samples_ms");
        one.median_ms = positive_at(row, "median_ms");
        const auto low = positive_at(row, "low_ms");
        const auto high = positive_at(row, "high_ms");
        if (low && high && one.median_ms && *low <= *one.median_ms && *one.median_ms <= *high)
            one.interval_ms = Range{*low, *high};
        const double ms = one.median_ms.value_or(0);
        one.bytes = positive_at(row, "effective_bandwidth_gbps").value_or(0) * ms * 1e6;
        one.flops = positive_at(row, "gflops").value_or(0) * ms * 1e6;
        one.share = number_at(row, "share_of_copy");
        if (!one.share) one.share = number_at(row, "share_of_read");
        if (!one.share) one.share = number_at(row, "share_of_vendor");
        one.gain_over_previous = number_at(row, "gain_over_previous");
        one.gain_over_first = number_at(row, "gain_over_first");
        one.previous_settled = flag_at(row, "gain_over_previous_settled").value_or(true);
        one.first_settled = flag_at(row, "gain_over_first_settled").value_or(true);
        const std::string verdict = text_at(row, "verdict");
        one.verified = verdict.empty() ? "" : verdict + " (" + text_at(row, "verification") + ")";
        const std::string reason = text_at(row, "reason");
        one.remark = reason.empty() ? text_at(row, "note") : "cannot run: " + reason;
        one.source = record.source;
        one.failed = verdict == "failed" || !one.median_ms;
        put_device(record.json, one);
        if (verdict == "failed") fail_row(record, one);
        add(std::move(one));
    }

    void fail_row(const LogRecord& record, const Measured& one) {
        const LoggedJson words = record.json.value("command", LoggedJson::array());
        data_.failures.push_back(
            {.source = record.source,
             .command_line = shell_line(words.get<std::vector<std::string>>()),
             .what = fmt::format("{} {} {} {} failed verification{}", one.op, one.label, one.type,
                                 to_string(one.size), one.remark.empty() ? "" : ": " + one.remark),
             .exit_code = {}});
    }

    void note_failure(const std::string& source, const LoggedJson& json) {
        data_.failures.push_back({source, command_line_of(json), failure_of(json),
                                  static_cast<int>(integer_at(json, "exit_code")),
                                  text_at(json, "working_folder")});
    }

    void take_run(const LogRecord& record) {
        const LoggedJson& json = record.json;
        const LoggedJson& verification = object_at(json, "verification");
        LoggedRun run = {.source = record.source,
                         .time = text_at(json, "time"),
                         .op = text_at(json, "op"),
                         .level = text_at(json, "level"),
                         .type = text_at(json, "type"),
                         .error = text_at(json, "error"),
                         .command_line = command_line_of(json)};
        const Extents size = size_of_run(json);
        if (size.m > 0 || size.n > 0) run.size = to_string(size);
        if (verification.contains("verdict"))
            run.verified = text_at(verification, "verdict") + " (" + text_at(verification, "mode") + ")";
        run.kind = text_at(object_at(json, "device"), "kind");
        const Operation* const operation = registry_.operation(run.op);
        const bool computes = operation != nullptr && operation->rate == Rate::arithmetic;
        run.rate = number_at(json, computes ? "gflops" : "effective_bandwidth_gbps");
        run.unit = computes ? "GFLOP/s" : "GB/s";
        run.kernel_ms = positive_at(object_at(json, "kernel_ms"), "median");
        run.total_ms = positive_at(object_at(json, "stages_ms"), "total");
        run.recorded_rest_ms = number_at(object_at(json, "stages_ms"), "rest");
        for (const LoggedJson& stage : json.value("stages", LoggedJson::array())) {
            run.stages.push_back(
                {text_at(stage, "name"),
                 {number_at(stage, "begin_ms").value_or(0), number_at(stage, "end_ms").value_or(0)},
                 number_at(stage, "busy_ms").value_or(0)});
        }
        run.exit_code = static_cast<int>(integer_at(json, "exit_code"));
        if (run.exit_code != 0) note_failure(record.source, json);
        if (!json.value("dry_run", false)) measure_run(record, run, size);
        data_.runs.push_back(std::move(run));
    }

    /// The choices, among what a record tells of its level, that its operation's levels leave to the user.
    [[nodiscard]] std::string choices_of(const LoggedJson& record, const std::string& op) const {
        const Operation* const operation = registry_.operation(op);
        std::string text;
        if (operation == nullptr) return text;
        for (const Parameter& parameter : registry_.parameters(*operation)) {
            const std::string name(parameter.name);
            const std::string choice = text_at(object_at(record, "parameters"), name.c_str());
            if (!choice.empty()) text += " " + name + "=" + choice;
        }
        return text;
    }

    /// " of 24000 entries" where an input is sparse.
    static std::string structure_of(const LoggedJson& json) {
        for (const LoggedJson& input : json.value("inputs", LoggedJson::array())) {
            if (const auto entries = number_at(input, "entries"))
                return " of " + std::to_string(static_cast<std::int64_t>(*entries)) + " entries";
        }
        return "";
    }

    void measure_run(const LogRecord& record, const LoggedRun& run, const Extents& size) {
        const LoggedJson& json = record.json;
        Measured one = {.what = "kernel", .op = run.op, .level = run.level, .type = run.type, .size = size};
        one.label = run.level + choices_of(json, run.op) + settings_of(json) + structure_of(json);
        one.bytes = number_at(json, "kernel_bytes").value_or(0);
        one.flops = number_at(json, "kernel_flops").value_or(0);
        one.verified = run.verified;
        one.source = run.source;
        put_device(json, one);
        Measured whole = one;
        if (run.exit_code != 0) {
            failed_.push_back(key_of(one));
            return;
        }
        one.samples_ms = samples_at(object_at(json, "kernel_ms"), "samples");
        if (!one.samples_ms.empty()) add(std::move(one));
        if (!run.total_ms) return;
        whole.what = "whole run";
        whole.label += besides_kernel(json);
        whole.samples_ms = {*run.total_ms};
        add(std::move(whole));
    }

    void take_probes(const LoggedJson& record) {
        const std::string device = text_at(object_at(record, "device"), "name");
        for (const LoggedJson& probe : record["probes"]) {
            if (text_at(probe, "name") != "roofline") continue;
            for (const LoggedJson& table : probe.value("tables", LoggedJson::array())) {
                for (const LoggedJson& row : table.value("rows", LoggedJson::array()))
                    take_roofline(device, row);
            }
        }
    }

    void take_roofline(const std::string& device, const LoggedJson& row) {
        if (const auto rate = positive_at(row, "rate"); rate && row.contains("ceiling")) {
            data_.ceilings.push_back(
                {device, text_at(row, "ceiling"), *rate, text_at(row, "unit") == "GB/s"});
            return;
        }
        const auto work = positive_at(row, "W, 10⁹ operations");
        const auto bytes = positive_at(row, "Q, MB");
        const auto ms = positive_at(row, "measured ms");
        if (work && bytes && ms)
            data_.probed.push_back(
                {device, text_at(row, "operation"), text_at(row, "level"), *work * 1e9, *bytes * 1e6, *ms});
    }

    using Key = std::tuple<std::string, std::string, std::string, std::string, std::int64_t, std::int64_t,
                           std::int64_t, std::string, int, std::string, bool>;

    static Key key_of(const Measured& one) {
        return {one.what,   one.op,     one.label,   one.type,  one.size.m,  one.size.n,
                one.size.k, one.device, one.threads, one.cache, one.baseline};
    }

    /// Adds a measurement, or its samples to those of the same one. Of those without samples the last counts.
    void add(Measured one) {
        const auto [found, is_new] = places_.try_emplace(key_of(one), data_.measured.size());
        if (is_new) return data_.measured.push_back(std::move(one));
        Measured& before = data_.measured[found->second];
        std::vector<Measured> repeats = std::move(before.repeats);
        if (repeats.empty()) repeats.push_back(before);
        repeats.push_back(one);
        one.failed = one.failed || before.failed;
        if (before.median_ms && !one.median_ms) {
            before.failed = true;
            std::swap(before, one);
        } else if (!before.samples_ms.empty() && !one.samples_ms.empty()) {
            one.samples_ms.insert(one.samples_ms.begin(), before.samples_ms.begin(), before.samples_ms.end());
        }
        one.repeats = std::move(repeats);
        before = std::move(one);
    }

    const Registry& registry_;
    LogData data_;
    std::map<Key, std::size_t> places_;
    std::vector<Key> failed_;  // of runs
};

}  // namespace

LogData data_of(const LogRecords& logs, const Registry& registry) {
    Collector collector(registry);
    for (const LogRecord& record : logs.records) {
        try {
            collector.take(record);
        } catch (const nlohmann::json::exception& why) {
            refuse_record(record, why);
        }
    }
    return collector.finish();
}

}  // namespace gpumat
