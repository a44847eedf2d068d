// Probes of memory: coalescing, banks, camping.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "kernels/probe/measure.hpp"
#include "lib/measure/probe.hpp"
#include "lib/measure/probe_levels.hpp"
#include "lib/record/record.hpp"

namespace gpumat {
namespace {

constexpr double kGiga = 1e9;

std::string device_name(const ProbeContext& context) {
    return recorded_device_name(context.device);
}

/// Useful bandwidth for each stride or offset, with the share of the first one.
struct Sweep {
    ProbeTable table;
    Series series;
};

Sweep sweep_words(const ProbeContext& context, const std::string& what, std::span<const int> values,
                  bool strides) {
    Sweep sweep;
    sweep.table.columns = {what, "useful GB/s", "share of the first"};
    sweep.series.name = what;
    double first = 0;
    for (const int value : values) {
        const double rate =
            probe::strided_bytes_per_s(context.device, strides ? value : 1, strides ? 0 : value);
        if (first == 0) first = rate;
        sweep.table.rows.push_back({static_cast<double>(value), rate / kGiga, rate / first});
        sweep.series.points.emplace_back(value, rate / kGiga);
    }
    return sweep;
}

}  // namespace

ProbeResult probe_coalescing(const ProbeContext& context) {
    constexpr std::array kStrides = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32};
    constexpr std::array kOffsets = {0, 1, 2, 4, 7, 8, 12, 15, 16, 20, 24, 28, 31, 32};
    const bool gpu = context.device.gpu != nullptr;
    Sweep strides = sweep_words(context, "stride in words", kStrides, true);
    Sweep offsets = sweep_words(context, "offset in words", kOffsets, false);
    const auto rate_at = [&](int stride) {
        const auto at = std::ranges::find(kStrides, stride) - kStrides.begin();
        return strides.series.points[static_cast<std::size_t>(at)].second;
    };
    const auto [least, most] = std::ranges::minmax_element(offsets.series.points, {},
                                                           [](const auto& point) { return point.second; });
    ProbeResult result;
    strides.table.title = "words of 4 bytes that lie apart";
    offsets.table.title = "neighbouring words that begin beside a line";
    result.tables = {strides.table, offsets.table};
    if (gpu) {
        result.shows = {
            fmt::format(
                "A warp that reads every 8th word uses {:.2f} of what neighbours get, every 32nd {:.2f}: "
                "memory moves whole sectors of 32 bytes, whatever is used of them.",
                rate_at(8) / rate_at(1), rate_at(32) / rate_at(1)),
            fmt::format("Beside the alignment of lines {:.2f} are left, for a warp touches one sector more.",
                        least->second / most->second),
            "The step from `naive` to `tiled` in the transpose, and from `naive-strided` to `naive` in the "
            "multiply, rests on it."};
    } else {
        result.shows = {
            fmt::format(
                "A loop that reads every 16th word uses {:.2f} of what neighbours get: memory moves whole "
                "lines of 64 bytes, whatever is used of them.",
                rate_at(16) / rate_at(1)),
            "The step from `per-row` to `tiled` in the CPU's transpose, and from `naive` to `interchanged` "
            "in its "
            "multiply, rests on it."};
    }
    result.chart = Chart{.title = "coalescing on " + device_name(context),
                         .x_label = "stride or offset in words of 4 bytes",
                         .y_label = "useful GB/s",
                         .series = {strides.series, offsets.series}};
    return result;
}

ProbeResult probe_banks(const ProbeContext& context) {
    Gpu& gpu = context.gpu("shared memory is a GPU's");
    constexpr std::array kSizes = {4, 8, 16};
    ProbeResult result;
    ProbeTable table = {.title = "clocks of a warp's access",
                        .columns = {"stride in elements", "4 bytes", "8 bytes", "16 bytes"}};
    Chart chart = {.title = "shared memory on " + device_name(context),
                   .x_label = "stride in elements (0: all lanes the same one)",
                   .y_label = "clocks a warp's access"};
    for (const int bytes : kSizes) chart.series.push_back({fmt::format("{} bytes", bytes), {}});
    std::array<double, 65> of_words{};
    for (int stride = 0; stride <= 64; ++stride) {
        std::vector<ProbeCell> row = {static_cast<double>(stride)};
        for (std::size_t i = 0; i < kSizes.size(); ++i) {
            const double clocks = probe::shared_access_clocks(gpu, kSizes[i], stride);
            if (i == 0) of_words[static_cast<std::size_t>(stride)] = clocks;
            row.emplace_back(clocks);
            chart.series[i].points.emplace_back(stride, clocks);
        }
        table.rows.push_back(std::move(row));
    }
    double odd = 0;
    for (std::size_t stride = 1; stride < 64; stride += 2) odd = std::max(odd, of_words[stride]);
    result.tables = {table};
    result.shows = {
        fmt::format(
            "Words at strides of 2, 4, 8, 16 and 32 take {:.3g}, {:.3g}, {:.3g}, {:.3g} and {:.3g} times as "
            "long as neighbours: 32 banks, and the words of one bank wait for each other.",
            of_words[2] / of_words[1], of_words[4] / of_words[1], of_words[8] / of_words[1],
            of_words[16] / of_words[1], of_words[32] / of_words[1]),
        fmt::format(
            "No odd stride takes more than {:.3g} times as long, and one word for all lanes {:.3g} times.",
            odd / of_words[1], of_words[0] / of_words[1]),
        "The step from `tiled` to `padded` in the transpose, whose tile row is an odd number of words, and "
        "from "
        "`tiled-conflicted` to `tiled` in the multiply, rests on it."};
    result.chart = std::move(chart);
    return result;
}

namespace {

/// Sets of a cache: a walk over lines at strides around powers of two.
ProbeResult camping_on_cpu(const ProbeContext& context) {
    ProbeTable table = {.title = "a walk over 64 lines of 64 bytes, again and again",
                        .columns = {"stride in bytes", "ns a line", "share of the slowest"}};
    Series series{.name = "64 lines", .points = {}};
    for (std::int64_t stride = 64; stride <= 8192 + 128; stride += stride < 1024 ? 64 : 128)
        series.points.emplace_back(stride, probe::set_conflict_ns(stride));
    for (const std::int64_t stride : {4096 - 64, 4096 + 64, 8192 - 64, 8192 + 64})
        series.points.emplace_back(stride, probe::set_conflict_ns(stride));
    std::ranges::sort(series.points);
    const double most =
        std::ranges::max(series.points, {}, [](const auto& point) { return point.second; }).second;
    for (const auto& [stride, ns] : series.points) table.rows.push_back({stride, ns, ns / most});
    const auto at = [&](double stride) {
        return std::ranges::find(series.points, stride, &std::pair<double, double>::first)->second;
    };
    ProbeResult result;
    result.tables = {table};
    result.shows = {
        fmt::format(
            "64 lines that lie 4096 bytes apart take {:.3g} ns each, 4160 bytes apart {:.3g} ns: the first "
            "cache keeps lines at multiples of 4096 bytes in one set of a few, where they push each other "
            "out.",
            at(4096), at(4160)),
        "The columns of a transpose whose rows are a power of two long meet it. `tiled` and `vectorized` on "
        "the CPU "
        "stage what they transpose because of it."};
    result.chart = Chart{.title = "sets of the cache of " + device_name(context),
                         .x_label = "bytes from line to line",
                         .y_label = "ns a line",
                         .series = {series}};
    return result;
}

}  // namespace

ProbeResult probe_camping(const ProbeContext& context) {
    if (context.device.gpu == nullptr) return camping_on_cpu(context);
    // The published sweep: where `padded` met one of the memory's partitions with all its blocks, it fell to
    // a third at multiples of 512.
    const LadderSteps steps = {.operation = "transpose", .levels = {"padded", "diagonal"}};
    std::vector<Extents> sizes;
    for (std::int64_t n = 512; n <= 4096; n += 32) sizes.push_back({n, n, 0});
    const std::vector<BenchRow> rows = measure_levels(context, steps, sizes);
    ProbeTable table = {.columns = {"n", "padded GB/s", "diagonal GB/s", "diagonal / padded"}};
    std::vector<Series> series = {{"padded", {}}, {"diagonal", {}}};
    std::vector<double> at_multiples;
    std::vector<double> between;
    for (const Extents& size : sizes) {
        std::array<double, 2> speeds{};
        for (std::size_t i = 0; i < steps.levels.size(); ++i) {
            speeds[i] = speed_at(rows, steps.levels[i], size).value_or(0);
            series[i].points.emplace_back(size.n, speeds[i]);
        }
        if (speeds[0] <= 0 || speeds[1] <= 0) continue;
        const double ratio = speeds[1] / speeds[0];
        table.rows.push_back({static_cast<double>(size.n), speeds[0], speeds[1], ratio});
        if (size.n < 1024) continue;
        if (size.n % 512 == 0) at_multiples.push_back(ratio);
        if (size.n % 128 != 0) between.push_back(ratio);
    }
    const double camped = median(at_multiples).value_or(1);
    const double usual = median(between).value_or(1);
    constexpr double kCamps = 1.15;
    ProbeResult result;
    result.tables = {table};
    result.shows = {fmt::format("From 1024 on `diagonal` has {:.2f} of what `padded` has at multiples of "
                                "512, and {:.2f} at sizes "
                                "between them; on the GTX 280 it had four times as much at the former only.",
                                camped, usual),
                    camped < kCamps * usual ? "This device spreads addresses over its memory channels, so "
                                              "that no size meets a few of them. What "
                                              "`diagonal` gains, it gains at every size."
                                            : "At multiples of 512 blocks that run at the same time meet a "
                                              "few of the memory's channels, and the "
                                              "order along diagonals spreads them.",
                    "The step from `padded` to `diagonal` in the transpose rests on it."};
    result.chart = Chart{.title = "transposes over sizes on " + device_name(context),
                         .x_label = "n (square f32 matrices)",
                         .y_label = "effective GB/s",
                         .series = std::move(series)};
    return result;
}

}  // namespace gpumat
