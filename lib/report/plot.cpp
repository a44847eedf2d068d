#include "lib/report/plot.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/error.hpp"
#include "lib/charts/chart.hpp"
#include "lib/charts/gnuplot.hpp"
#include "lib/measure/bench_export.hpp"

namespace gpumat {
namespace {

constexpr const char* kLevelColour = "#0072B2";
constexpr const char* kBaselineColour = "#B0B0B0";
constexpr const char* kReferenceColour = "#404040";

double speed_of(const BenchRow& row) {
    return row.speed().value_or(0);
}

bool same_problem(const BenchRow& x, const BenchRow& y) {
    return x.type == y.type && x.size == y.size;
}

std::vector<BenchRow> measured(std::span<const BenchRow> rows) {
    std::vector<BenchRow> kept;
    for (const BenchRow& row : rows) {
        if (!row.median_ms) continue;
        kept.push_back(row);
        kept.back().samples_ms.clear();
    }
    return kept;
}

std::string title_of(const BenchHead& head, const std::vector<BenchRow>& rows, bool one_problem) {
    std::string title = std::string(name_of(*head.operation)) + " ";
    if (!head.sparse.empty()) title += "of " + head.sparse + " ";
    const auto of_first_type = [&](const BenchRow& row) { return row.type == rows.front().type; };
    if (std::ranges::all_of(rows, of_first_type)) title += std::string(name_of(rows.front().type)) + " ";
    if (one_problem) title += to_string(rows.front().size) + " ";
    return title + "on " + head.device.name + (head.hot ? ", hot cache" : ", cold cache");
}

std::string unit_of(const BenchHead& head) {
    return !head.sparse.empty() || head.operation->rate == Rate::bandwidth
               ? "effective bandwidth (GB/s, read + written)"
               : "GFLOP/s";
}

/// Rates between those of the interval's ends.
std::optional<Range> whisker_of(const BenchRow& row) {
    if (!row.low_ms || !row.high_ms) return std::nullopt;
    const double work = speed_of(row) * *row.median_ms;
    return Range{work / *row.high_ms, work / *row.low_ms};
}

Bars bars_of(const BenchHead& head, const std::vector<BenchRow>& rows) {
    Bars bars = {.title = title_of(head, rows, true), .x_label = unit_of(head), .bars = {}};
    for (const BenchRow& row : rows) {
        bars.bars.push_back({.name = label_of(row),
                             .value = speed_of(row),
                             .whisker = whisker_of(row),
                             .colour = row.baseline ? kBaselineColour : kLevelColour,
                             .text = four_digits(speed_of(row))});
        if (row.yardstick && speed_of(row) > bars.reference) {
            bars.reference = speed_of(row);
            bars.reference_name = row.level;
        }
    }
    return bars;
}

/// Curves over the problems: over the extent where all are square, else over their place in the list.
Chart curves_of(const BenchHead& head, const std::vector<BenchRow>& rows) {
    const bool one_type =
        std::ranges::all_of(rows, [&](const BenchRow& row) { return row.type == rows.front().type; });
    const bool squares = std::ranges::all_of(
        rows, [&](const BenchRow& row) { return row.size == head.operation->square(row.size.n); });
    const bool ranged = std::ranges::all_of(rows, [](const BenchRow& row) { return row.low_ms.has_value(); });
    Chart chart = {.title = title_of(head, rows, false),
                   .x_label = squares ? "n (square matrices)" : "problem",
                   .y_label = unit_of(head),
                   .series = {}};
    std::vector<Extents> sizes;
    for (const BenchRow& row : rows) {
        if (std::ranges::find(sizes, row.size) == sizes.end()) sizes.push_back(row.size);
        const std::string name = label_of(row) + (one_type ? "" : " " + std::string(name_of(row.type)));
        auto series = std::ranges::find(chart.series, name, &Series::name);
        if (series == chart.series.end()) {
            const int dash = row.yardstick ? static_cast<int>(chart.series.size() % 2) + 2 : 0;
            chart.series.push_back(
                {.name = name, .points = {}, .colour = row.yardstick ? kReferenceColour : "", .dash = dash});
            series = std::prev(chart.series.end());
        }
        const auto place = std::ranges::find(sizes, row.size) - sizes.begin();
        series->points.emplace_back(static_cast<double>(squares ? row.size.n : place), speed_of(row));
        if (ranged) series->whiskers.push_back(*whisker_of(row));
    }
    if (!squares) {
        for (const Extents& size : sizes) chart.places.push_back(to_string(size));
    }
    return chart;
}

}  // namespace

void require_plot_possible(const std::string& path) {
    if (!path.ends_with(".svg") && !path.ends_with(".png"))
        throw Error(ErrorCode::usage, "--plot is '" + path + "'; expected a name in .svg or .png");
    require_gnuplot(path, "results can be had with --csv or --json");
}

std::string plot_script(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
                        const std::string& output) {
    const std::vector<BenchRow> kept = measured(rows);
    const bool one_problem =
        std::ranges::all_of(kept, [&](const BenchRow& row) { return same_problem(row, kept.front()); });
    const Canvas canvas = Canvas::file(path, output);
    return one_problem ? script_of(bars_of(head, kept), canvas) : script_of(curves_of(head, kept), canvas);
}

void draw_plot(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
               const std::string& output) {
    if (std::ranges::none_of(rows, [](const BenchRow& row) { return row.median_ms.has_value(); }))
        throw Error(ErrorCode::output, path + " cannot be drawn: no row has a time");
    draw_script(plot_script(head, rows, path, output), path);
}

}  // namespace gpumat
