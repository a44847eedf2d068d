// Probes of what a multiprocessor holds: occupancy, granularity.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"
#include "kernels/common/occupancy.hpp"
#include "lib/choose/explain.hpp"
#include "lib/measure/bench_sizes.hpp"
#include "lib/measure/probe.hpp"
#include "lib/measure/probe_levels.hpp"

namespace gpumat {
namespace {

std::string capability_text(int value) {
    return std::to_string(value / 10) + "." + std::to_string(value % 10);
}

const Multiprocessor& multiprocessor_of(const std::string& name) {
    if (const Multiprocessor* found = find_multiprocessor(name)) return *found;
    std::string known;
    for (const Multiprocessor& one : multiprocessors())
        known += (known.empty() ? "" : ", ") + capability_text(one.compute_capability);
    throw Error(ErrorCode::usage, "--compute-capability is '" + name + "'; expected one of " + known);
}

/// "32x8" has 256.
int threads_of(const std::string& block) {
    int threads = 1;
    const char* at = block.data();
    const char* end = at + block.size();
    while (at < end) {
        int size = 1;
        at = std::from_chars(at, end, size).ptr;
        threads *= size;
        if (at < end) ++at;
    }
    return threads;
}

std::string fact(const std::vector<std::pair<std::string, std::string>>& facts, std::string_view name) {
    const auto found = std::ranges::find(facts, name, &std::pair<std::string, std::string>::first);
    return found == facts.end() ? "" : found->second;
}

int number_of(const std::string& text) {
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

std::vector<ProbeCell> cells_of(const Occupancy& found) {
    return {static_cast<double>(found.blocks), static_cast<double>(found.warps), found.share,
            std::string(found.limit)};
}

/// A kernel that is described by what it takes, on every device that is known, or on the one that is named.
ProbeResult occupancy_of_needs(const ProbeContext& context, const BlockNeeds& needs, bool assumed) {
    const std::string& asked = context.options.compute_capability;
    ProbeTable table = {
        .title = fmt::format("blocks of {} threads, {} registers a thread, {} bytes of shared memory",
                             needs.threads, needs.registers, needs.shared_bytes),
        .columns = {"compute capability", "blocks", "warps", "share of threads", "limit"}};
    Chart chart = {.title = table.title + ", by registers",
                   .x_label = "registers a thread",
                   .y_label = "share of the threads of a multiprocessor"};
    for (const Multiprocessor& chip : multiprocessors()) {
        if (!asked.empty() && &chip != &multiprocessor_of(asked)) continue;
        std::vector<ProbeCell> row = {capability_text(chip.compute_capability)};
        std::ranges::copy(cells_of(occupancy_of(chip, needs)), std::back_inserter(row));
        table.rows.push_back(std::move(row));
        Series series{.name = capability_text(chip.compute_capability), .points = {}};
        for (int registers = 8; registers <= 255; ++registers) {
            BlockNeeds varied = needs;
            varied.registers = registers;
            series.points.emplace_back(registers, occupancy_of(chip, varied).share);
        }
        chart.series.push_back(std::move(series));
    }
    ProbeResult result;
    result.tables = {table};
    result.chart = std::move(chart);
    if (assumed)
        result.shows.emplace_back(
            "There is no GPU here that says what the levels take: this is an example. --block, --registers "
            "and "
            "--shared-bytes describe another kernel.");
    result.shows.emplace_back(
        "A multiprocessor takes whole blocks, as many as its threads, registers, shared memory and places "
        "for blocks "
        "allow: 10 registers × 256 threads are 3 blocks on compute capability 1.0, 11 registers are 2.");
    result.shows.emplace_back(
        "The registers of `register-blocked` and the shared memory of `pipelined` in the multiply "
        "are chosen with it: fewer threads, each with more of its own.");
    return result;
}

/// Every level of every operation, prepared for this device.
ProbeResult occupancy_of_levels(const ProbeContext& context, Gpu& gpu) {
    const std::string& asked = context.options.compute_capability;
    const std::string here = capability_text(gpu.info().compute_capability);
    const Multiprocessor* chip = asked.empty() ? find_multiprocessor(here) : &multiprocessor_of(asked);
    ProbeTable table = {.columns = {"operation", "level", "block", "registers", "shared bytes", "blocks",
                                    "warps", "share of threads", "limit", "blocks, CUDA says"}};
    std::int64_t agree = 0;
    const Registry& registry = context.registry;
    for (const Operation* operation : registry.operations()) {
        Problem problem;
        problem.operation = operation;
        problem.type = context.options.type;
        const Extents size = context.options.size
                                 ? operation->square(*context.options.size)
                                 : parse_bench_sizes(std::string(operation->bench_size), *operation)[0];
        problem.m = size.m;
        problem.n = size.n;
        problem.k = size.k;
        for (const Level* level : registry.levels(*operation, DeviceKind::gpu)) {
            if (!unsupported_reasons(*level, problem, context.device).empty()) continue;
            const auto facts = launch_facts(*level, problem, context.device);
            const std::string block = fact(facts, "block");
            if (block.empty()) continue;  // a library that keeps its launches to itself
            const BlockNeeds needs = {.threads = threads_of(block),
                                      .registers = number_of(fact(facts, "registers")),
                                      .shared_bytes = number_of(fact(facts, "shared_bytes"))};
            std::vector<ProbeCell> row = {std::string(operation->name), std::string(level->name), block,
                                          static_cast<double>(needs.registers),
                                          static_cast<double>(needs.shared_bytes)};
            const int told = number_of(fact(facts, "blocks_per_multiprocessor"));
            if (chip != nullptr) {
                const Occupancy found = occupancy_of(*chip, needs);
                std::ranges::copy(cells_of(found), std::back_inserter(row));
                if (found.blocks == told) ++agree;
            } else {
                row.resize(row.size() + 4);
            }
            row.emplace_back(asked.empty() ? ProbeCell(static_cast<double>(told)) : ProbeCell());
            table.rows.push_back(std::move(row));
        }
    }
    ProbeResult result;
    table.title = asked.empty() ? "on " + gpu.info().name
                                : "what was compiled for " + here + ", on compute capability " + asked;
    if (asked.empty())
        result.shows.push_back(
            fmt::format("CUDA's own calculator says the same for {} of {} levels; a level that asks for "
                        "less shared memory than there is may have fewer blocks.",
                        agree, table.rows.size()));
    result.shows.emplace_back(
        "The naive rungs fill every place with threads; `register-blocked` and `pipelined` leave most of "
        "them empty and "
        "are the fastest: what has to be full is the pipeline of multiply-adds, not the list of threads "
        "(probe ilp).");
    result.tables = {std::move(table)};
    return result;
}

/// The parameter that chooses its tile; null where it has none.
const Parameter* tile_of(const Level& level) {
    const auto found = std::ranges::find(level.parameters, "tile", &Parameter::name);
    return found == level.parameters.end() ? nullptr : &*found;
}

/// The first rung with tiles to choose, of an operation whose speed is that of arithmetic.
const Level& level_with_tiles(const Registry& registry) {
    for (const Operation* operation : registry.operations()) {
        if (operation->rate != Rate::arithmetic) continue;
        for (const Level* level : registry.levels(*operation, DeviceKind::gpu, Role::rung))
            if (tile_of(*level) != nullptr) return *level;
    }
    throw Error(ErrorCode::unsupported, "no level has tiles to choose, and computes with them");
}

}  // namespace

ProbeResult probe_occupancy(const ProbeContext& context) {
    const ProbeOptions& options = context.options;
    const bool described = options.block_threads || options.registers || options.shared_bytes;
    if (!options.compute_capability.empty()) (void)multiprocessor_of(options.compute_capability);
    if (!described && context.device.gpu != nullptr) return occupancy_of_levels(context, *context.device.gpu);
    return occupancy_of_needs(context,
                              {.threads = options.block_threads.value_or(256),
                               .registers = options.registers.value_or(32),
                               .shared_bytes = options.shared_bytes.value_or(0)},
                              !described);
}

ProbeResult probe_granularity(const ProbeContext& context) {
    Gpu& gpu = context.gpu("tiles in shared memory are a GPU's");
    const Level& level = level_with_tiles(context.registry);
    const std::string_view name = level.name;
    const Parameter& parameter = *tile_of(level);
    std::vector<std::string> tiles;
    for (const std::string_view tile : parameter.choices) tiles.emplace_back(tile);
    const std::int64_t n = context.options.size.value_or(2048);
    const LadderSteps steps = {.operation = level.operation->name,
                               .levels = {std::string(name)},
                               .parameters = {{std::string(parameter.name), tiles}}};
    const std::vector<BenchRow> rows = measure_levels(context, steps, {{n, n, n}});
    const Multiprocessor* chip = find_multiprocessor(capability_text(gpu.info().compute_capability));
    ProbeTable table = {.title = fmt::format("`{}` at {}", name, n),
                        .columns = {"tile", "threads", "registers", "shared bytes", "blocks",
                                    "share of threads", "limit", "GFLOP/s"}};
    Series series{.name = std::string(name), .points = {}};
    for (const BenchRow& row : rows) {
        const double tile = number_of(row.parameters.begin()->second);
        const std::string block = fact(row.details, "block");
        const double threads = threads_of(block);
        std::vector<ProbeCell> cells = {tile, threads};
        const auto registers = detail_of(row, "registers");
        const auto shared = detail_of(row, "shared_bytes");
        const auto blocks = detail_of(row, "blocks_per_multiprocessor");
        for (const auto& value : {registers, shared, blocks})
            cells.emplace_back(value ? ProbeCell(*value) : ProbeCell());
        if (chip != nullptr && registers && shared) {
            const Occupancy found = occupancy_of(
                *chip, {static_cast<int>(threads), static_cast<int>(*registers), static_cast<int>(*shared)});
            cells.emplace_back(found.share);
            cells.emplace_back(std::string(found.limit));
        } else {
            cells.resize(cells.size() + 2);
        }
        cells.emplace_back(row.gflops ? ProbeCell(*row.gflops) : ProbeCell());
        if (row.gflops) series.points.emplace_back(tile, *row.gflops);
        table.rows.push_back(std::move(cells));
    }
    const auto best = std::ranges::max_element(series.points, {}, &std::pair<double, double>::second);
    ProbeResult result;
    if (best != series.points.end())
        result.shows.push_back(
            fmt::format("A tile of {:.0f} is the fastest: a larger one reads each operand from device "
                        "memory less often, and its barriers hold more threads at a time.",
                        best->first));
    result.shows.emplace_back(
        "The step from `naive` to `tiled` in the multiply rests on it, and on the GTX 280 16×16 "
        "tiles filled all 768 or 1024 threads where 8×8 could not.");
    result.tables = {std::move(table)};
    result.chart = Chart{.title = "tile of `tiled` on " + recorded_device_name(context.device),
                         .x_label = "side of the tile",
                         .y_label = "GFLOP/s",
                         .series = {series}};
    return result;
}

}  // namespace gpumat
