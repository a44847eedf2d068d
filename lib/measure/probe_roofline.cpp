// Probes of whole levels: roofline, energy.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "kernels/device/nvml.hpp"
#include "kernels/probe/measure.hpp"
#include "lib/choose/roofline.hpp"
#include "lib/measure/bench_memory.hpp"
#include "lib/measure/probe.hpp"
#include "lib/measure/probe_levels.hpp"
#include "lib/run/executor.hpp"

namespace gpumat {
namespace {

constexpr double kBillion = 1e9;

Extents size_of_probe(const ProbeContext& context, const Operation& operation) {
    if (context.options.size) return operation.square(*context.options.size);
    return parse_bench_sizes(std::string(operation.bench_size), operation)[0];
}

/// Measured ceilings, and the table of them.
struct Roof {
    double bytes_per_s = 0;       ///< copied, read and written
    double read_bytes_per_s = 0;  ///< read alone; 0 where no level does that
    std::optional<double> flops_per_s;
    std::optional<double> tensor_flops_per_s;
    ProbeTable table = {.title = "ceilings", .columns = {"ceiling", "rate", "unit", "balance, flop/byte"}};
};

void add_gpu_ceilings(const ProbeContext& context, Roof& roof) {
    Gpu& gpu = *context.device.gpu;
    const Type type = context.options.type;
    const std::string wanted = type == Type::f64 || type == Type::c128 ? "f64" : "f32";
    for (const std::string_view units : probe::units_of_arithmetic()) {
        const auto rate = probe::flops_per_s(gpu, units);
        if (!rate) continue;
        roof.table.rows.push_back(
            {std::string(units), *rate / kBillion, std::string("GFLOP/s"), *rate / roof.bytes_per_s});
        if (units == wanted) roof.flops_per_s = rate;
        if (units.starts_with(name_of(type)) && units != wanted)
            roof.tensor_flops_per_s = std::max(*rate, roof.tensor_flops_per_s.value_or(0));
    }
    roof.table.rows.push_back(
        {std::string("L2, read"), probe::l2_bytes_per_s(gpu) / kBillion, std::string("GB/s"), {}});
    roof.table.rows.push_back({std::string("shared memory, read"),
                               probe::shared_bytes_per_s(gpu) / kBillion,
                               std::string("GB/s"),
                               {}});
}

/// Rows of every level of every operation, its copies and reads among them.
std::vector<BenchRow> measure_all(const ProbeContext& context) {
    std::vector<BenchRow> all;
    for (const Operation* operation : context.registry.operations()) {
        const LadderSteps steps = {.operation = operation->name, .against = {"all"}};
        for (BenchRow& row : measure_levels(context, steps, {size_of_probe(context, *operation)}))
            all.push_back(std::move(row));
    }
    return all;
}

Roof roof_of(const ProbeContext& context, const std::vector<BenchRow>& rows) {
    Roof roof;
    for (const BenchRow& row : rows) {
        if (!row.yardstick || !row.effective_bandwidth_gbps || row.operation->rate != Rate::bandwidth)
            continue;
        const double rate = *row.effective_bandwidth_gbps * kBillion;
        const Level* level = nullptr;
        for (const Level& one : context.registry.levels()) {
            if (one.operation == row.operation && one.device == context.device.kind && one.name == row.ran)
                level = &one;
        }
        if (level != nullptr && level->copies) roof.bytes_per_s = std::max(roof.bytes_per_s, rate);
        if (level != nullptr && level->reads) roof.read_bytes_per_s = std::max(roof.read_bytes_per_s, rate);
    }
    if (roof.bytes_per_s == 0)
        throw Error(ErrorCode::unsupported, "no level copies, so that the memory has no ceiling");
    if (context.device.gpu != nullptr) {
        add_gpu_ceilings(context, roof);
    } else {
        roof.flops_per_s = cpu_flops_per_s(context.options.type, context.device.threads);
        if (roof.flops_per_s)
            roof.table.rows.push_back({std::string(name_of(context.options.type)),
                                       *roof.flops_per_s / kBillion, std::string("GFLOP/s"),
                                       *roof.flops_per_s / roof.bytes_per_s});
    }
    roof.table.rows.push_back(
        {std::string("copy, read and written"), roof.bytes_per_s / kBillion, std::string("GB/s"), {}});
    if (roof.read_bytes_per_s > 0)
        roof.table.rows.push_back(
            {std::string("read"), roof.read_bytes_per_s / kBillion, std::string("GB/s"), {}});
    return roof;
}

Problem problem_of_row(const BenchRow& row) {
    Problem problem;
    problem.operation = row.operation;
    problem.type = row.type;
    problem.m = row.size.m;
    problem.n = row.size.n;
    problem.k = row.size.k;
    return problem;
}

/// Operations of a problem; elements moved, where nothing is computed.
double work_of(const Problem& problem) {
    return problem.operation->flops != nullptr ? problem.flops()
                                               : problem.bytes() / static_cast<double>(size_of(problem.type));
}

bool uses_tensor_cores(const ProbeContext& context, const BenchRow& row) {
    for (const Level& level : context.registry.levels()) {
        if (level.operation == row.operation && level.device == context.device.kind && level.name == row.ran)
            return level.arithmetic != nullptr &&
                   level.arithmetic({.operation = row.operation, .type = row.type}).units == Units::tensor;
    }
    return false;
}

/// Whether the operation's shares of speed are of what only reads.
bool compared_with_reads(const ProbeContext& context, const BenchRow& row) {
    return std::ranges::any_of(context.registry.levels(), [&](const Level& level) {
        return level.operation == row.operation && level.yardstick && level.reads;
    });
}

Series roof_line(const Roof& roof) {
    Series line{.name = "roof", .points = {}};
    constexpr int kPoints = 50;  // from 1/16 to some 4000 operations a byte
    for (int point = 0; point < kPoints; ++point) {
        const double intensity = std::pow(1.25, point) / 16;
        const double by_memory = intensity * roof.bytes_per_s;
        line.points.emplace_back(intensity,
                                 std::min(by_memory, roof.flops_per_s.value_or(by_memory)) / kBillion);
    }
    return line;
}

}  // namespace

ProbeResult probe_roofline(const ProbeContext& context) {
    const std::vector<BenchRow> rows = measure_all(context);
    Roof roof = roof_of(context, rows);
    ProbeTable table = {
        .title = fmt::format("levels, {}: T = max(W / rate, Q / bandwidth)", name_of(context.options.type)),
        .columns = {"operation", "level", "size", "W, 10⁹ operations", "Q, MB", "bound ms", "by",
                    "measured ms", "bound / measured"}};
    Chart chart = {.title = "roofline of " + recorded_device_name(context.device),
                   .x_label = "operations (elements moved, where nothing is computed) a byte",
                   .y_label = "10⁹ operations/s",
                   .log_x = true,
                   .log_y = true,
                   .series = {roof_line(roof)}};
    struct Closest {
        double share = 0;
        std::string name;
    };
    Closest to_memory;
    Closest to_arithmetic;
    for (const BenchRow& row : rows) {
        if (!row.median_ms) continue;
        const Problem problem = problem_of_row(row);
        const bool only_reads = compared_with_reads(context, row) && roof.read_bytes_per_s > 0;
        const double memory_ms =
            problem.bytes() / (only_reads ? roof.read_bytes_per_s : roof.bytes_per_s) * 1e3;
        const auto rate = uses_tensor_cores(context, row) ? roof.tensor_flops_per_s : roof.flops_per_s;
        const double flops_ms = rate ? problem.flops() / *rate * 1e3 : 0;
        const double bound = std::max(memory_ms, flops_ms);
        table.rows.push_back({std::string(row.operation->name), label_of(row), to_string(row.size),
                              work_of(problem) / kBillion, problem.bytes() / 1e6, bound,
                              std::string(flops_ms > memory_ms ? "arithmetic" : "memory"), *row.median_ms,
                              bound / *row.median_ms});
        Closest& closest = flops_ms > memory_ms ? to_arithmetic : to_memory;
        if (!row.baseline && bound / *row.median_ms > closest.share)
            closest = {bound / *row.median_ms, std::string(row.operation->name) + " " + label_of(row)};
        if (row.baseline && row.role != Role::vendor) continue;
        const auto series = std::ranges::find(chart.series, row.operation->name, &Series::name);
        if (series == chart.series.end())
            chart.series.push_back({std::string(row.operation->name), {}, false});
        auto& points = std::ranges::find(chart.series, row.operation->name, &Series::name)->points;
        points.emplace_back(work_of(problem) / problem.bytes(), work_of(problem) / *row.median_ms / 1e6);
    }
    ProbeResult result;
    result.tables = {roof.table, table};
    if (roof.flops_per_s)
        result.shows.push_back(
            fmt::format("A level that does fewer than {:.1f} operations a byte is bounded by memory, one "
                        "that does more by arithmetic.",
                        *roof.flops_per_s / roof.bytes_per_s));
    for (const auto& [what, closest] :
         {std::pair("memory's", to_memory), std::pair("arithmetic's", to_arithmetic)}) {
        if (closest.share > 0)
            result.shows.push_back(
                fmt::format("Of what is bounded by it, `{}` comes closest to the {} bound: {:.2f} of it.",
                            closest.name, what, closest.share));
    }
    result.shows.emplace_back(
        "Transposes and reductions can only reach the slope; the multiply's ladder climbs from far "
        "under the slope to the roof, because each rung fetches less for what it computes.");
    result.chart = std::move(chart);
    return result;
}

// ---- Energy ----------------------------------------------------------------------------------------------

namespace {

/// Counts joules: NVML's counter of a GPU, or the packages of a CPU (RAPL).
class EnergyMeter {
  public:
    explicit EnergyMeter(const Device& device) {
        if (device.gpu != nullptr) {
            std::string why_not;
            monitor_ = GpuMonitor::open(device.gpu->info().uuid, why_not);
            if (!monitor_) throw Error(ErrorCode::unsupported, "energy is not counted: " + why_not);
        } else {
            find_packages();
        }
        if (!joules()) {
            throw Error(
                ErrorCode::unsupported,
                device.gpu != nullptr
                    ? "energy is not counted: NVML has no counter for " + device.gpu->info().name
                    : std::string("energy is not counted: no counter in /sys/class/powercap can be read"));
        }
    }

    [[nodiscard]] std::optional<double> joules() const {
        if (monitor_) return monitor_->energy_j();
        double sum = 0;
        for (const auto& path : packages_) {
            double microjoules = 0;
            if (!(std::ifstream(path) >> microjoules)) return std::nullopt;
            sum += microjoules / 1e6;
        }
        return packages_.empty() ? std::nullopt : std::optional(sum);
    }

  private:
    void find_packages() {
        std::error_code none;
        for (const auto& entry : std::filesystem::directory_iterator("/sys/class/powercap", none)) {
            const std::string name = entry.path().filename().string();
            // "intel-rapl:0" is a package, "intel-rapl:0:1" a part of one.
            if (name.starts_with("intel-rapl:") && std::ranges::count(name, ':') == 1)
                packages_.push_back(entry.path() / "energy_uj");
        }
    }

    std::shared_ptr<GpuMonitor> monitor_;
    std::vector<std::filesystem::path> packages_;
};

struct Consumed {
    double work = 0;
    double bytes = 0;
    double seconds = 0;
    double joules = 0;
};

/// One run of a level, from as many as take `seconds`.
std::optional<Consumed> consumed_by(const EnergyMeter& meter, const Executor& executor, const Launch& launch,
                                    const Problem& problem, double seconds) {
    constexpr double kMostRuns = 20000;
    const double once_ms = std::max(executor.time_ms(launch), 1e-3);
    const auto runs = static_cast<int>(std::clamp(seconds * 1e3 / once_ms, 1.0, kMostRuns));
    const auto before = meter.joules();
    double ms = 0;
    if (Gpu* gpu = executor.device().gpu) {
        ms = gpu->time_ms([&](Stream stream) {
            for (int i = 0; i < runs; ++i) launch.run(stream);
        });
    } else {
        const Stopwatch watch;
        for (int i = 0; i < runs; ++i) launch.run({});
        ms = watch.elapsed_ms();
    }
    const auto after = meter.joules();
    if (!before || !after || *after <= *before)
        return std::nullopt;  // a counter that began anew, or too short
    return Consumed{.work = work_of(problem),
                    .bytes = problem.bytes(),
                    .seconds = ms / 1e3 / runs,
                    .joules = (*after - *before) / runs};
}

/// E = a·W + b·Q + c·T, with the least squares of the relative errors and no coefficient below 0.
std::array<double, 3> fit_energy(const std::vector<Consumed>& all) {
    std::array<double, 3> best{};
    double least = -1;
    // Each subset of the terms is solved; of those without a negative one the closest is taken.
    for (unsigned subset = 1; subset < 8; ++subset) {
        std::array<std::array<double, 4>, 3> system{};
        for (const Consumed& one : all) {
            const std::array terms = {one.work / one.joules, one.bytes / one.joules,
                                      one.seconds / one.joules};
            for (std::size_t i = 0; i < 3; ++i) {
                for (std::size_t j = 0; j < 3; ++j) system[i][j] += terms[i] * terms[j];
                system[i][3] += terms[i];
            }
        }
        for (std::size_t i = 0; i < 3; ++i) {
            if ((subset >> i & 1U) != 0) continue;
            for (std::size_t j = 0; j < 4; ++j) system[i][j] = system[j % 3][i] = 0;
            system[i] = {};
            system[i][i] = 1;
        }
        for (std::size_t i = 0; i < 3; ++i) {  // Gauss and Jordan; the matrix is positive
            const double pivot = system[i][i];
            if (pivot <= 0) continue;
            for (double& value : system[i]) value /= pivot;
            for (std::size_t other = 0; other < 3; ++other) {
                const double factor = system[other][i];
                for (std::size_t j = 0; j < 4 && other != i; ++j) system[other][j] -= factor * system[i][j];
            }
        }
        const std::array found = {system[0][3], system[1][3], system[2][3]};
        if (std::ranges::any_of(found, [](double value) { return !(value >= 0); })) continue;
        double errors = 0;
        for (const Consumed& one : all) {
            const double share =
                (found[0] * one.work + found[1] * one.bytes + found[2] * one.seconds) / one.joules - 1;
            errors += share * share;
        }
        if (least >= 0 && errors >= least) continue;
        least = errors;
        best = found;
    }
    return best;
}

}  // namespace

ProbeResult probe_energy(const ProbeContext& context) {
    constexpr double kSeconds = 0.5;  // of runs of a level: several steps of the counter
    const EnergyMeter meter(context.device);
    const Registry& registry = context.registry;
    const Executor executor(context.device, {VerifyMode::none, {}, context.options.threads, 0});
    ProbeTable table = {
        .title = "one run of each level",
        .columns = {"operation", "level", "size", "ms", "joules", "watts", "operations a joule"}};
    std::vector<Consumed> all;
    for (const Operation* operation : registry.operations()) {
        Problem problem;
        problem.operation = operation;
        problem.type = context.options.type;
        const Extents size = size_of_probe(context, *operation);
        problem.m = size.m;
        problem.n = size.n;
        problem.k = size.k;
        BenchMemory memory(context.device, {&problem, 1}, true, {}, 0, context.options.seed);
        memory.load(problem);
        for (const Level* level : registry.levels(*operation, context.device.kind)) {
            if (!unsupported_reasons(*level, problem, context.device).empty()) continue;
            const std::vector<Launch> launches = executor.prepare(*level, problem, memory.sets());
            const auto one = consumed_by(meter, executor, launches.front(), problem, kSeconds);
            if (!one) continue;
            all.push_back(*one);
            table.rows.push_back({std::string(operation->name), std::string(level->name), to_string(size),
                                  one->seconds * 1e3, one->joules, one->joules / one->seconds,
                                  one->work / one->joules});
        }
    }
    const auto [flop, byte, idle] = fit_energy(all);
    ProbeResult result;
    result.tables = {table};
    result.shows = {
        fmt::format(
            "E = W·{:.3g} pJ + Q·{:.3g} pJ + T·{:.3g} W fits the levels best: W operations, Q bytes of "
            "device memory at the least, T seconds.",
            flop * 1e12, byte * 1e12, idle),
        "What takes longer takes more, whatever it computes: the fastest rung is nearly always the one that "
        "takes the fewest joules."};
    Series series{.name = "levels", .points = {}, .line = false};
    for (const Consumed& one : all) series.points.emplace_back(one.seconds * 1e3, one.joules);
    result.chart = Chart{.title = "energy on " + recorded_device_name(context.device),
                         .x_label = "ms a run",
                         .y_label = "joules a run",
                         .log_x = true,
                         .log_y = true,
                         .series = {series}};
    return result;
}

}  // namespace gpumat
