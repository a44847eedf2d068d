#include "lib/measure/probe.hpp"

#include <spdlog/fmt/fmt.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>

#include "core/error.hpp"
#include "core/stopwatch.hpp"

namespace gpumat {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kProbes = {
    Probe{"coalescing", "what bandwidth is left where neighbouring threads read words that lie apart", false,
          probe_coalescing},
    Probe{"banks", "what shared memory takes for each stride of a warp", true, probe_banks},
    Probe{"divergence", "what threads of one warp pay for going different ways", true, probe_divergence},
    Probe{"ilp", "how many independent multiply-adds it takes to keep the units busy", false, probe_ilp},
    Probe{"instructions", "how many results of each operation there are in a clock", false,
          probe_instructions},
    Probe{"camping", "at which sizes a transpose meets a few of many memory channels or cache sets", false,
          probe_camping},
    Probe{"granularity", "what the size of a tile changes: registers, shared memory, occupancy, rate", true,
          probe_granularity},
    Probe{"occupancy", "how many threads of each level a multiprocessor holds, and what limits them", false,
          probe_occupancy},
    Probe{"roofline", "how fast memory and arithmetic are at most, and how far each level is from that",
          false, probe_roofline},
    Probe{"energy", "how many joules each level takes", false, probe_energy},
};

Json to_json(const ProbeCell& cell) {
    if (const auto* number = std::get_if<double>(&cell))
        return std::isfinite(*number) ? Json(*number) : Json();
    if (const auto* text = std::get_if<std::string>(&cell)) return *text;
    return {};
}

Json to_json(const ProbeTable& table) {
    Json rows = Json::array();
    for (const auto& row : table.rows) {
        Json object = Json::object();
        for (std::size_t i = 0; i < table.columns.size(); ++i) object[table.columns[i]] = to_json(row[i]);
        rows.push_back(std::move(object));
    }
    return {{"title", table.title.empty() ? Json() : Json(table.title)}, {"rows", std::move(rows)}};
}

Json to_json(const ProbeRun& run) {
    Json tables = Json::array();
    for (const ProbeTable& table : run.result.tables) tables.push_back(to_json(table));
    return {{"name", run.name},
            {"reason", run.reason.empty() ? Json() : Json(run.reason)},
            {"seconds", run.seconds},
            {"tables", std::move(tables)},
            {"shows", run.result.shows}};
}

}  // namespace

Gpu& ProbeContext::gpu(const std::string& why) const {
    if (device.gpu == nullptr) throw Error(ErrorCode::unsupported, why);
    return *device.gpu;
}

std::span<const Probe> probes() {
    return kProbes;
}

ProbeRun run_probe(const Probe& probe, const ProbeContext& context) {
    const Stopwatch watch;
    if (probe.needs_gpu)
        (void)context.gpu("the probe '" + std::string(probe.name) +
                          "' asks a GPU, and the device is a CPU: it means nothing there");
    ProbeRun run = {.name = std::string(probe.name), .result = probe.run(context)};
    run.seconds = watch.elapsed_ms() / 1e3;
    return run;
}

std::vector<ProbeRun> run_probes(const ProbeContext& context) {
    std::vector<ProbeRun> runs;
    for (const Probe& probe : probes()) {
        tell(context.say, Severity::info, "probe " + std::string(probe.name));
        try {
            runs.push_back(run_probe(probe, context));
        } catch (const Error& error) {
            if (error.code() != ErrorCode::unsupported) throw;
            runs.push_back({.name = std::string(probe.name), .reason = error.what()});
        }
    }
    return runs;
}

nlohmann::ordered_json to_json(const std::vector<ProbeRun>& runs, const RecordedDevice& device,
                               const std::vector<std::string>& command_line) {
    const Origin now = origin_of_this_run();
    Json all = Json::array();
    for (const ProbeRun& run : runs) all.push_back(to_json(run));
    return {{"schema", "gpumat.probe/1"},
            {"time", now.time},
            {"command_line", shell_line(command_line)},
            {"version", now.build.version},
            {"host", now.host},
            {"device",
             {{"kind", device.kind},
              {"name", device.name},
              {"threads", device.threads > 0 ? Json(device.threads) : Json()},
              {"compute_capability",
               device.compute_capability.empty() ? Json() : Json(device.compute_capability)},
              {"driver", device.driver.empty() ? Json() : Json(device.driver)}}},
            {"probes", std::move(all)}};
}

std::string cell_text(const ProbeCell& cell) {
    if (const auto* text = std::get_if<std::string>(&cell)) return *text;
    const auto* number = std::get_if<double>(&cell);
    if (number == nullptr || !std::isfinite(*number)) return "-";
    const double size = std::fabs(*number);
    if (*number == std::floor(*number) && size < 1e6) return fmt::format("{:.0f}", *number);
    if (size >= 1000 && size < 1e6) return fmt::format("{:.0f}", *number);
    return fmt::format("{:.4g}", *number);
}

}  // namespace gpumat
