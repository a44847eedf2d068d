#include "lib/measure/probe_levels.hpp"

#include <charconv>

#include "core/error.hpp"
#include "lib/choose/device.hpp"

namespace gpumat {

std::vector<BenchRow> measure_levels(const ProbeContext& context, const LadderSteps& steps,
                                     std::vector<Extents> sizes) {
    const Operation* operation = context.registry.operation(steps.operation);
    if (operation == nullptr)
        throw Error(ErrorCode::unsupported,
                    "there is no operation '" + std::string(steps.operation) + "' here");
    BenchOptions options = {.operation = operation,
                            .sizes = std::move(sizes),
                            .types = {context.options.type},
                            .levels = steps.levels,
                            .against = steps.against,
                            .device = context.device.gpu == nullptr
                                          ? "cpu"
                                          : "gpu:" + std::to_string(context.device.gpu->info().index),
                            .parameters = steps.parameters,
                            .time_limit_s = context.options.time_limit_s,
                            .verify = VerifyMode::none,
                            .threads = context.options.threads,
                            .seed = context.options.seed};
    std::vector<BenchRow> rows;
    (void)run_bench(options, context.registry, {.row = [&](const BenchRow& row) { rows.push_back(row); }});
    return rows;
}

std::optional<double> speed_at(const std::vector<BenchRow>& rows, std::string_view level,
                               const Extents& size) {
    for (const BenchRow& row : rows) {
        if (row.level == level && row.size == size) return row.speed();
    }
    return std::nullopt;
}

std::optional<double> detail_of(const BenchRow& row, std::string_view name) {
    for (const auto& [key, text] : row.details) {
        if (key != name) continue;
        double value = 0;
        if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{}) return value;
    }
    return std::nullopt;
}

std::string recorded_device_name(const Device& device) {
    return recorded_device(device).name;
}

}  // namespace gpumat
