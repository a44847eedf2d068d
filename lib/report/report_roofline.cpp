#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/numbers/type.hpp"
#include "lib/report/report_sections.hpp"

namespace gpumat {
namespace {

/// Where a measured kernel is on the roofline.
std::optional<RooflinePoint> point_of(const Measured& one) {
    const auto type = type_from_name(one.type);
    if (one.what != "kernel" || !one.median_ms || one.bytes <= 0 || !type) return std::nullopt;
    const double moved = one.bytes / static_cast<double>(size_of(*type));
    return RooflinePoint{one.device, one.op,        one.level, one.flops > 0 ? one.flops : moved,
                         one.bytes,  *one.median_ms};
}

/// What bounds the levels of a device: measured ceilings, else the fastest copy among its rows.
std::vector<Ceiling> ceilings_of_device(const LogData& data, const std::string& device) {
    std::vector<Ceiling> ceilings;
    for (const Ceiling& one : data.ceilings) {
        if (one.device == device) ceilings.push_back(one);
    }
    if (!ceilings.empty()) return ceilings;
    Ceiling copy = {device, "fastest copy", 0, true};
    for (const Measured& one : data.measured) {
        if (one.device == device && one.baseline && one.flops == 0 && one.rate())
            copy.rate = std::max(copy.rate, *one.rate());
    }
    if (copy.rate > 0) ceilings.push_back(copy);
    return ceilings;
}

/// Slopes of memories up to the highest arithmetic, or the fastest level where that is not known, and levels
/// of arithmetic from the steepest slope on.
void add_roof(const std::vector<Ceiling>& ceilings, double from, double to, double fastest, Chart& chart) {
    double steepest = 0;
    double highest = 0;
    for (const Ceiling& one : ceilings) {
        double& most = one.bytes ? steepest : highest;
        most = std::max(most, one.rate);
    }
    if (highest == 0) highest = fastest;
    int dash = 0;
    for (const Ceiling& one : ceilings) {
        Series line = {.name = one.name, .points = {}, .colour = kGrey, .dash = ++dash};
        const double first = one.bytes || steepest == 0 ? from : std::max(from, one.rate / steepest);
        const double last = one.bytes ? std::min(to, highest / one.rate) : to;
        if (first >= last) continue;
        for (const double x : {first, last}) line.points.emplace_back(x, one.bytes ? x * one.rate : one.rate);
        chart.series.push_back(std::move(line));
    }
}

Chart roofline_chart(const std::vector<RooflinePoint>& points, const std::vector<Ceiling>& ceilings,
                     const LevelColours& colours) {
    Chart chart = {.title = "",
                   .x_label = "operations (elements moved, where nothing is computed) a byte",
                   .y_label = "10⁹ operations/s",
                   .log_x = true,
                   .log_y = true,
                   .series = {}};
    double from = 1e300;
    double to = 0;
    double fastest = 0;
    for (const RooflinePoint& point : points) {
        fastest = std::max(fastest, point.work / point.ms / 1e6 * 2);
        from = std::min(from, point.work / point.bytes / 2);
        to = std::max(to, point.work / point.bytes * 2);
    }
    add_roof(ceilings, from, to, fastest, chart);
    std::vector<std::string> ops;
    for (const RooflinePoint& point : points) {
        if (std::ranges::find(ops, point.op) == ops.end()) ops.push_back(point.op);
        const auto op = std::ranges::find(ops, point.op) - ops.begin();
        const std::string name = point.op + " " + point.level;
        auto series = std::ranges::find(chart.series, name, &Series::name);
        if (series == chart.series.end()) {
            chart.series.push_back({.name = name,
                                    .points = {},
                                    .line = false,
                                    .colour = colours.of(point.level),
                                    .point = 5 + 2 * static_cast<int>(op % 5)});
            series = std::prev(chart.series.end());
        }
        series->points.emplace_back(point.work / point.bytes, point.work / point.ms / 1e6);
    }
    return chart;
}

}  // namespace

void add_roofline_section(const LogData& data, const LevelColours& colours, ReportDocument& document) {
    std::map<std::string, std::vector<RooflinePoint>> points;
    for (const RooflinePoint& point : data.probed) points[point.device].push_back(point);
    for (const Measured& one : data.measured) {
        if (auto point = point_of(one)) points[one.device].push_back(std::move(*point));
    }
    ReportSection section = {"Roofline", {}};
    for (const auto& [device, here] : points) {
        std::set<std::string> levels;
        for (const RooflinePoint& point : here) levels.insert(point.op + " " + point.level);
        if (section.blocks.size() == kMostFigures) break;
        if (levels.size() > kMostSeries) {
            section.blocks.emplace_back(ReportText{plural(levels.size(), "level") + " on " + or_dash(device) +
                                                   " are too many to be drawn."});
            continue;
        }
        const std::vector<Ceiling> ceilings = ceilings_of_device(data, device);
        if (here.size() < 2 && ceilings.empty()) continue;  // a point alone says nothing
        section.blocks.emplace_back(
            ReportFigure{"every level on " + or_dash(device), roofline_chart(here, ceilings, colours)});
    }
    if (!section.blocks.empty()) document.sections.push_back(std::move(section));
}

}  // namespace gpumat
