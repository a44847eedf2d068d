// Probes of arithmetic: divergence, ilp, instructions.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "kernels/common/peak.hpp"
#include "kernels/probe/measure.hpp"
#include "lib/measure/probe.hpp"
#include "lib/measure/probe_levels.hpp"

namespace gpumat {

ProbeResult probe_divergence(const ProbeContext& context) {
    Gpu& gpu = context.gpu("a CPU's threads do not walk in step");
    constexpr std::array kPaths = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    ProbeTable table = {.columns = {"ways", "inside a warp, ms", "times", "between warps, ms", "times"}};
    std::array<double, 2> first{};
    std::array<double, 2> last{};
    Series inside{.name = "lanes of a warp", .points = {}};
    Series between{.name = "whole warps", .points = {}};
    for (const int paths : kPaths) {
        const std::array ms = {probe::branch_ms(gpu, paths, true), probe::branch_ms(gpu, paths, false)};
        if (paths == 1) first = ms;
        last = ms;
        table.rows.push_back({static_cast<double>(paths), ms[0], ms[0] / first[0], ms[1], ms[1] / first[1]});
        inside.points.emplace_back(paths, ms[0] / first[0]);
        between.points.emplace_back(paths, ms[1] / first[1]);
    }
    ProbeResult result;
    result.tables = {table};
    result.shows = {
        fmt::format("Lanes of one warp that go 32 ways take {:.3g} times as long as one way, whole warps "
                    "that do {:.3g} times: the ways of a warp run one after the other.",
                    last[0] / first[0], last[1] / first[1]),
        "The step from `interleaved` to `sequential` in the reduction rests on it: the same additions, "
        "with whole warps at work or done."};
    result.chart = Chart{.title = "divergence on " + recorded_device_name(context.device),
                         .x_label = "different ways",
                         .y_label = "time over that of one way",
                         .series = {inside, between}};
    return result;
}

namespace {

ProbeResult ilp_on_cpu(const ProbeContext& context) {
    constexpr std::array kChains = {1, 2, 4, 8, 16};
    ProbeTable table = {.columns = {"chains", "10⁹ multiply-adds/s", "share of the best"}};
    Series series{.name = "one thread", .points = {}};
    double best = 0;
    for (const int chains : kChains) {
        series.points.emplace_back(chains, probe::multiply_adds_per_s(chains) / 1e9);
        best = std::max(best, series.points.back().second);
    }
    for (const auto& [chains, rate] : series.points) table.rows.push_back({chains, rate, rate / best});
    ProbeResult result;
    result.tables = {table};
    result.shows = {
        fmt::format(
            "One chain of multiply-adds has {:.2f} of the best rate of a thread: each waits some clocks for "
            "the one before it, and a processor has no other warp to turn to.",
            series.points.front().second / best),
        "The 24 independent sums of `outer-product` in the CPU's multiply, and the four of `vectorized` in "
        "its "
        "reduction, rest on it."};
    result.chart = Chart{.title = "chains on " + recorded_device_name(context.device),
                         .x_label = "chains of multiply-adds",
                         .y_label = "10⁹ multiply-adds/s",
                         .log_x = true,
                         .series = {series}};
    return result;
}

}  // namespace

ProbeResult probe_ilp(const ProbeContext& context) {
    if (context.device.gpu == nullptr) return ilp_on_cpu(context);
    Gpu& gpu = *context.device.gpu;
    // Threads of one block: of two blocks, the second may begin when the first has ended.
    constexpr std::array kThreads = {32, 64, 128, 192, 256, 384, 512, 768, 1024};
    constexpr std::array kChains = {1, 2, 4, 8};
    const double lanes = multiply_adds_per_clock(gpu.info().compute_capability, Type::f32).value_or(128);
    // One warp with one chain completes 32 results in the time of one multiply-add: its latency.
    const double latency = 32 / probe::multiply_adds_per_clock(gpu, 32, 1);
    ProbeTable table = {.columns = {"threads a multiprocessor"}};
    std::vector<Series> series;
    for (const int chains : kChains) {
        const std::string name = fmt::format("{} chain{}", chains, chains == 1 ? "" : "s");
        table.columns.push_back(name);
        table.columns.push_back(name + ", Little's law");
        series.push_back({name, {}});
    }
    double one_chain = 0;
    double eight_chains_at = 0;
    for (const int threads : kThreads) {
        std::vector<ProbeCell> row = {static_cast<double>(threads)};
        for (std::size_t i = 0; i < kChains.size(); ++i) {
            const double share = probe::multiply_adds_per_clock(gpu, threads, kChains[i]) / lanes;
            const double predicted = std::min(1.0, threads * kChains[i] / (latency * lanes));
            row.emplace_back(share);
            row.emplace_back(predicted);
            series[i].points.emplace_back(threads, share);
            if (i == 0) one_chain = share;
            if (i + 1 == kChains.size() && share > 0.9 && eight_chains_at == 0) eight_chains_at = threads;
        }
        table.rows.push_back(std::move(row));
    }
    ProbeResult result;
    table.title =
        fmt::format("share of {:.0f} f32 multiply-adds a clock; one takes {:.1f} clocks", lanes, latency);
    result.tables = {table};
    result.shows = {
        fmt::format("Little's law: {:.1f} clocks × {:.0f} a clock = {:.0f} multiply-adds on their way keep a "
                    "multiprocessor busy, from many threads or from many chains of a few.",
                    latency, lanes, latency * lanes),
        fmt::format("One chain reaches {:.2f} with 1024 threads, eight chains pass 0.9 "
                    "from {:.0f} "
                    "threads on.",
                    one_chain, eight_chains_at),
        "The step from `outer-product` to `register-blocked` in the multiply rests on it: many sums a thread "
        "do what "
        "many threads do."};
    result.chart = Chart{.title = "multiply-adds on " + recorded_device_name(context.device),
                         .x_label = "threads a multiprocessor",
                         .y_label = "share of the peak",
                         .log_x = true,
                         .series = std::move(series)};
    return result;
}

ProbeResult probe_instructions(const ProbeContext& context) {
    const bool gpu = context.device.gpu != nullptr;
    const std::vector<probe::OperationRate> rates = probe::operation_rates(context.device);
    const auto rate_of = [&](std::string_view name) {
        const auto found = std::ranges::find(rates, name, &probe::OperationRate::name);
        return found == rates.end() ? 0.0 : found->rate;
    };
    ProbeTable table = {
        .columns = {"operation", gpu ? "results a clock" : "10⁹ results/s", "share of f32 add"}};
    for (const auto& [name, rate] : rates)
        table.rows.push_back({std::string(name), rate, rate / rate_of("f32 add")});
    table.title = gpu ? "of one multiprocessor" : "of one thread, number by number";
    ProbeResult result;
    result.tables = {table};
    result.shows = {
        fmt::format("A division of integers takes as long as {:.0f} additions, a modulo {:.0f}, a modulo by "
                    "a power of "
                    "two {:.1f}.",
                    rate_of("u32 add") / rate_of("u32 divide"), rate_of("u32 add") / rate_of("u32 modulo"),
                    rate_of("u32 add") / rate_of("u32 modulo 4096")),
        fmt::format("An f64 addition takes as long as {:.1f} of f32.",
                    rate_of("f32 add") / rate_of("f64 add"))};
    if (gpu) {
        result.shows.emplace_back(
            "`unrolled` in the multiply rests on it, whose offsets are constants, and `sequential` in the "
            "reduction, "
            "which has no remainder.");
    } else {
        result.shows.emplace_back(
            "`interchanged` in the CPU's multiply rests on it: multiply-adds without index "
            "arithmetic beside them.");
    }
    return result;
}

}  // namespace gpumat
