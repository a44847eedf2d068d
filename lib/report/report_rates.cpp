#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "lib/measure/bench_export.hpp"
#include "lib/report/report_sections.hpp"

namespace gpumat {
namespace {

constexpr std::size_t kSweepSizes = 4;  ///< as many problems are a curve, fewer are ladders

using MeasuredGroup = std::vector<const Measured*>;

bool is_square(const Extents& size) {
    return size.m == size.n && (size.k == 0 || size.k == size.n);
}

std::tuple<std::int64_t, std::int64_t, std::int64_t> key_of_size(const Extents& size) {
    return {size.m, size.n, size.k};
}

/// What measurements of one chart share. Sizes of squares have an order; other shapes are places of their
/// own.
auto key_of_place(const Measured& one) {
    return std::tuple(is_square(one.size), one.op, one.type, one.device, one.threads, one.cache);
}

/// Those with the same key together, in their order.
template <class KeyOf>
std::vector<MeasuredGroup> groups_of(const MeasuredGroup& all, const KeyOf& key_of) {
    std::vector<MeasuredGroup> groups;
    std::map<decltype(key_of(*all.front())), std::size_t> places;
    for (const Measured* one : all) {
        const auto [place, is_new] = places.try_emplace(key_of(*one), groups.size());
        if (is_new) groups.emplace_back();
        groups[place->second].push_back(one);
    }
    return groups;
}

std::vector<Extents> sizes_of(const MeasuredGroup& group) {
    std::vector<Extents> sizes;
    std::set<decltype(key_of_size(Extents{}))> known;
    for (const Measured* one : group) {
        if (known.insert(key_of_size(one->size)).second) sizes.push_back(one->size);
    }
    return sizes;
}

std::size_t labels_in(const MeasuredGroup& group) {
    std::set<std::string_view> labels;
    for (const Measured* one : group) labels.insert(one->label);
    return labels.size();
}

std::string rate_label(const Measured& one) {
    return one.by_arithmetic ? "GFLOP/s" : "GB/s, read and written";
}

ReportFigure ladder_figure(const MeasuredGroup& group, const LevelColours& colours) {
    const Measured& first = *group.front();
    Bars bars = {.title = "", .x_label = rate_label(first), .bars = {}};
    for (const Measured* one : group) {
        bars.bars.push_back({.name = one->label,
                             .value = *one->rate(),
                             .whisker = one->rate_interval(),
                             .colour = colours.of(*one),
                             .text = doubted(four_digits(*one->rate()), one->settled())});
    }
    return {first.op + " " + problem_of(first) + place_of(first), std::move(bars)};
}

Chart sweep_chart(const MeasuredGroup& group, const std::vector<Extents>& sizes,
                  const LevelColours& colours) {
    constexpr double kWide = 16;  // a range of sizes for which a logarithmic axis is better
    const bool squares = std::ranges::all_of(sizes, is_square);
    const auto [least, most] = std::ranges::minmax(sizes, {}, &Extents::n);
    Chart chart = {.title = "",
                   .x_label = squares ? "n (square matrices)" : "problem",
                   .y_label = rate_label(*group.front()),
                   .log_x = squares && static_cast<double>(most.n) >= kWide * static_cast<double>(least.n),
                   .series = {}};
    for (const Measured* one : group) {
        auto series = std::ranges::find(chart.series, one->label, &Series::name);
        if (series == chart.series.end()) {
            const int dash = one->baseline ? static_cast<int>(chart.series.size() % 4) + 2 : 0;
            chart.series.push_back(
                {.name = one->label, .points = {}, .colour = colours.of(*one), .dash = dash});
            series = std::prev(chart.series.end());
        }
        const auto place = squares ? one->size.n : std::ranges::find(sizes, one->size) - sizes.begin();
        const double rate = *one->rate();
        series->points.emplace_back(static_cast<double>(place), rate);
        series->whiskers.push_back(one->rate_interval().value_or(Range{rate, rate}));
    }
    for (const Extents& size : sizes) {
        if (!squares) chart.places.push_back(to_string(size));
    }
    return chart;
}

}  // namespace

void add_sections_of_rates(const LogData& data, const LevelColours& colours, ReportDocument& document) {
    MeasuredGroup timed;
    for (const Measured& one : data.measured) {
        if (one.what == "kernel" && one.rate()) timed.push_back(&one);
    }
    ReportSection ladders = {"Ladders", {}};
    ReportSection sweeps = {"Sweeps", {}};
    ladders.blocks.emplace_back(ReportText{
        "Whiskers are the 95 % intervals of the medians; ~ marks what did not settle within 1 %."});
    std::size_t left_out = 0;
    for (const MeasuredGroup& group : groups_of(timed, key_of_place)) {
        const std::vector<Extents> sizes = sizes_of(group);
        const bool is_sweep = sizes.size() >= kSweepSizes;
        const auto size_of_one = [](const Measured& one) { return key_of_size(one.size); };
        for (const MeasuredGroup& part :
             is_sweep ? std::vector<MeasuredGroup>{group} : groups_of(group, size_of_one)) {
            const std::size_t labels = labels_in(part);
            if (labels < 2 && !is_sweep) continue;
            if (labels > kMostSeries || ladders.blocks.size() + sweeps.blocks.size() > kMostFigures) {
                ++left_out;
            } else if (is_sweep) {
                const Measured& first = *part.front();
                sweeps.blocks.emplace_back(ReportFigure{first.op + " " + first.type + place_of(first),
                                                        sweep_chart(part, sizes, colours)});
            } else {
                ladders.blocks.emplace_back(ladder_figure(part, colours));
            }
        }
    }
    if (left_out > 0)
        ladders.blocks.emplace_back(
            ReportText{"Too many or too large to be drawn, and in the table of measurements: " +
                       plural(left_out, "chart") + "."});
    if (ladders.blocks.size() > 1) document.sections.push_back(std::move(ladders));
    if (!sweeps.blocks.empty()) document.sections.push_back(std::move(sweeps));
}

}  // namespace gpumat
