#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include "core/numbers/type.hpp"
#include "lib/measure/bench_export.hpp"
#include "lib/record/origin.hpp"
#include "lib/record/record.hpp"
#include "lib/record/version.hpp"
#include "lib/report/report.hpp"

namespace gpumat {
namespace {

constexpr std::size_t kMostFailures = 200;
constexpr std::size_t kMostFigures = 40;
constexpr std::size_t kMostSeries = 80;  ///< of one figure
constexpr std::size_t kMostTimelines = 6;
constexpr std::size_t kSweepSizes = 4;  ///< as many problems are a curve, fewer are ladders

// Neither light nor dark, so that they can be seen on white and on black.
constexpr std::array kLevelColours = {"#0D7DD4", "#C4530F", "#009342", "#AD51A7", "#95760D", "#138B90",
                                      "#7B65D1", "#C74A51", "#718509", "#4B74D8", "#158E77", "#975AC0",
                                      "#6A96FE", "#E17F08", "#00B785", "#DE6EB2", "#A99F07", "#0FADC9",
                                      "#355BBD", "#915006", "#007654", "#9E3378", "#6D6603", "#0E6F81"};
constexpr const char* kGrey = "#8A9099";  // of copies, vendor's libraries and what is no level

/// One colour a level, whatever it is shown in.
class LevelColours {
  public:
    explicit LevelColours(const LogData& data) {
        std::set<std::string> baselines;
        for (const Measured& one : data.measured) {
            if (one.baseline) baselines.insert(one.level);
            if (!one.baseline && one.what == "kernel") learn(one.level);
        }
        for (const RooflinePoint& point : data.probed) {
            if (!baselines.contains(point.level)) learn(point.level);
        }
    }

    [[nodiscard]] std::string of(const std::string& level) const {
        const auto found = places_.find(level);
        return found == places_.end() ? kGrey : kLevelColours[found->second % kLevelColours.size()];
    }
    [[nodiscard]] std::string of(const Measured& one) const { return one.baseline ? kGrey : of(one.level); }

  private:
    void learn(const std::string& level) {
        if (!level.empty()) places_.try_emplace(level, places_.size());
    }

    std::map<std::string, std::size_t> places_;
};

std::string or_dash(const std::string& text) {
    return text.empty() ? "-" : text;
}

ReportCell number_cell(const std::optional<double>& value, const std::string& text) {
    return value ? ReportCell{text, value} : ReportCell{"-"};
}

ReportCell ms_cell(const std::optional<double>& ms) {
    return number_cell(ms, four_digits(ms.value_or(0)));
}

/// "~" before what did not settle.
std::string doubted(const std::string& text, bool settled) {
    return (settled ? "" : "~") + text;
}

std::string problem_of(const Measured& one) {
    const bool has_size = one.size.m > 0 || one.size.n > 0;
    return or_dash(one.type) + (has_size ? " " + to_string(one.size) : "");
}

std::string place_of(const Measured& one) {
    return (one.device.empty() ? "" : " on " + one.device) +
           (one.threads > 0 ? fmt::format(" ({} thread{})", one.threads, one.threads == 1 ? "" : "s") : "") +
           (one.cache.empty() ? ", runs" : ", " + one.cache + " cache");
}

std::string plural(std::size_t count, const std::string& noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// ---- Failures ---------------------------------------------------------------------------------------------

ReportSection failures_section(const Report& report) {
    ReportSection section = {"Failures", {}};
    for (const std::string& source : report.cut) {
        section.blocks.emplace_back(ReportText{
            source + ": the record has no end: what wrote it was killed, or the disk was full.", Mark::bad});
    }
    const auto& failures = report.now.failures;
    for (const Failure& failure : std::span(failures).first(std::min(failures.size(), kMostFailures))) {
        const std::string code = failure.exit_code ? fmt::format(", exit {}", *failure.exit_code) : "";
        const std::string folder = failure.folder.empty() ? "" : ", in " + failure.folder;
        section.blocks.emplace_back(
            ReportText{failure.source + code + folder + ": " + or_dash(failure.what), Mark::bad});
        if (!failure.command_line.empty()) section.blocks.emplace_back(ReportCommand{failure.command_line});
    }
    if (failures.size() > kMostFailures)
        section.blocks.emplace_back(
            ReportText{fmt::format("{} more are in the JSON.", failures.size() - kMostFailures), Mark::bad});
    if (section.blocks.empty())
        section.blocks.emplace_back(
            ReportText{"None: no run failed, and no result failed verification.", Mark::good});
    return section;
}

// ---- Comparison -------------------------------------------------------------------------------------------

ReportCell interval_cell(const Measured& one) {
    std::string text = doubted(four_digits(*one.median_ms), one.settled());
    if (one.interval_ms)
        text +=
            fmt::format(" [{}, {}]", four_digits(one.interval_ms->low), four_digits(one.interval_ms->high));
    return {text, one.median_ms};
}

Mark mark_of(Change change) {
    if (change == Change::slower) return Mark::bad;
    if (change == Change::faster) return Mark::good;
    return change == Change::unknown ? Mark::doubtful : Mark::none;
}

ReportTable only_table(const LogComparison& comparison) {
    ReportTable table = {
        "Measured on one side only", {"where", "what", "operation", "level", "problem"}, {}, true};
    const auto add = [&](const char* where, const std::vector<const Measured*>& only) {
        for (const Measured* one : only)
            table.rows.push_back({{{where}, {one->what}, {one->op}, {one->label}, {problem_of(*one)}}});
    };
    add("before", comparison.only_before);
    add("now", comparison.only_now);
    return table;
}

ReportSection comparison_section(const Report& report, const LevelColours& colours) {
    const LogComparison& comparison = *report.comparison;
    ReportSection section = {"Comparison", {}};
    section.blocks.emplace_back(
        ReportText{fmt::format("{} SLOWER, {} FASTER, {} SAME, {} UNKNOWN, against {}.",
                               comparison.count(Change::slower), comparison.count(Change::faster),
                               comparison.count(Change::same), comparison.count(Change::unknown),
                               fmt::join(report.names_before, ", ")),
                   report.has(Change::slower) ? Mark::bad : Mark::none});
    section.blocks.emplace_back(
        ReportText{fmt::format("SLOWER and FASTER: the 95 % intervals are apart, and the medians by more "
                               "than {:.4g} %. UNKNOWN: neither, and on one "
                               "side the interval is wider than 1 %, or there are too few samples for one.",
                               comparison.threshold * 100)});
    ReportTable table = {
        "",
        {"verdict", "what", "operation", "level", "problem", "before, ms", "now, ms", "now / before"},
        {}};
    for (const ComparedRow& row : comparison.rows) {
        table.rows.push_back({{{std::string(name_of(row.change))},
                               {row.now->what},
                               {row.now->op},
                               {row.now->label, {}, colours.of(*row.now)},
                               {problem_of(*row.now)},
                               interval_cell(*row.before),
                               interval_cell(*row.now),
                               {fmt::format("{:.3f}", row.ratio), row.ratio}},
                              mark_of(row.change)});
    }
    section.blocks.emplace_back(std::move(table));
    if (ReportTable only = only_table(comparison); !only.rows.empty())
        section.blocks.emplace_back(std::move(only));
    return section;
}

// ---- Environment ------------------------------------------------------------------------------------------

std::string values_text(const FactValues& values) {
    std::string text;
    for (const auto& [value, count] : values) {
        if (!text.empty()) text += "; ";
        text += value;
        if (values.size() > 1) text += " (" + plural(static_cast<std::size_t>(count), "record") + ")";
    }
    return or_dash(text);
}

ReportSection environment_section(const Report& report) {
    ReportTable table = {"", {"property", "value", "differs"}, {}};
    if (report.comparison) table.columns = {"property", "now", "before", "differs"};
    for (const ComparedFact& fact : compared_facts(report)) {
        const bool apart = differs(fact.now, fact.before);
        ReportRow row = {{{fact.name}, {values_text(fact.now)}}, apart ? Mark::doubtful : Mark::none};
        if (report.comparison) row.cells.push_back({values_text(fact.before)});
        row.cells.push_back({apart ? "differs" : ""});
        table.rows.push_back(std::move(row));
    }
    return {"Environment", {std::move(table)}};
}

// ---- Ladders and sweeps -----------------------------------------------------------------------------------

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

// ---- Roofline ---------------------------------------------------------------------------------------------

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

// ---- Measurements -----------------------------------------------------------------------------------------

ReportCell spread_cell(const Measured& one) {
    if (!one.median_ms || !one.interval_ms) return {"-"};
    const double spread =
        std::max(one.interval_ms->high - *one.median_ms, *one.median_ms - one.interval_ms->low);
    return {fmt::format("{:.1f} %", 100 * spread / *one.median_ms), spread / *one.median_ms};
}

void add_measurements(const LogData& data, const LevelColours& colours, ReportDocument& document) {
    ReportTable table = {"",
                         {"what", "operation", "level", "type", "size", "device", "cache", "time, ms", "±",
                          "rate", "", "of peer", "gain", "total gain", "verified", "remark", "record"},
                         {}};
    for (const Measured& one : data.measured) {
        const bool settled = one.settled();
        const auto gain = [&](const std::optional<double>& value, bool other_settled) {
            return number_cell(value,
                               doubted(fmt::format("{:.2f}x", value.value_or(0)), settled && other_settled));
        };
        const auto rate = one.rate();
        table.rows.push_back(
            {{{one.what},
              {one.op},
              {or_dash(one.label), {}, one.label.empty() ? "" : colours.of(one)},
              {or_dash(one.type)},
              {to_string(one.size), static_cast<double>(one.size.m) * static_cast<double>(one.size.n)},
              {or_dash(one.device)},
              {or_dash(one.cache)},
              ms_cell(one.median_ms),
              spread_cell(one),
              number_cell(rate, doubted(four_digits(rate.value_or(0)), settled)),
              {rate ? one.unit() : ""},
              number_cell(one.share, fmt::format("{:.3f}", one.share.value_or(0))),
              gain(one.gain_over_previous, one.previous_settled),
              gain(one.gain_over_first, one.first_settled),
              {or_dash(one.verified)},
              {one.remark},
              {one.source}},
             one.verified.starts_with("failed") ? Mark::bad : Mark::none});
    }
    if (!table.rows.empty()) document.sections.push_back({"Measurements", {std::move(table)}});
}

// ---- Runs -------------------------------------------------------------------------------------------------

ReportFigure timeline_figure(const LoggedRun& run) {
    StageChart timeline = {.title = "", .x_label = "ms", .rows = {}};
    for (const RunStage& stage : run.stages) {
        timeline.rows.push_back({.name = stage.name,
                                 .spans = {stage.span},
                                 .busy = stage.busy_ms,
                                 .colour = kLevelColours[0],
                                 .text = four_digits(stage.busy_ms)});
    }
    const double rest = run.rest_ms().value_or(0);
    timeline.rows.push_back(
        {.name = "rest", .spans = run.rest(), .colour = kGrey, .text = four_digits(rest)});
    return {fmt::format("{} {} {} {}: {} ms, {} of them rest ({})", run.op, run.level, run.type, run.size,
                        four_digits(*run.total_ms), four_digits(rest), run.source),
            std::move(timeline)};
}

/// Those that failed, then the longest.
void add_timelines(const std::vector<LoggedRun>& runs, ReportSection& section) {
    std::vector<const LoggedRun*> staged;
    for (const LoggedRun& run : runs) {
        if (!run.stages.empty() && run.stages.size() <= kMostSeries && run.total_ms) staged.push_back(&run);
    }
    std::ranges::stable_sort(staged, [](const LoggedRun* x, const LoggedRun* y) {
        return std::pair(x->exit_code == 0, -*x->total_ms) < std::pair(y->exit_code == 0, -*y->total_ms);
    });
    if (staged.empty()) return;
    const std::size_t shown = std::min(staged.size(), kMostTimelines);
    section.blocks.emplace_back(ReportText{
        fmt::format("Timelines of {} of {}, those that failed and the longest first. Pale: from a stage's "
                    "beginning to its "
                    "end. Dark, and the number: how long it worked in that time. Rest: when none worked.",
                    shown, plural(staged.size(), "run"))});
    for (const LoggedRun* run : std::span(staged).first(shown))
        section.blocks.emplace_back(timeline_figure(*run));
}

void add_runs(const LogData& data, const LevelColours& colours, ReportDocument& document) {
    if (data.runs.empty()) return;
    ReportSection section = {"Runs", {}};
    add_timelines(data.runs, section);
    ReportTable table = {"",
                         {"time", "operation", "level", "type", "size", "kernel, ms", "rest, ms", "total, ms",
                          "verified", "exit", "record"},
                         {}};
    for (const LoggedRun& run : data.runs) {
        table.rows.push_back({{{or_dash(run.time)},
                               {run.op},
                               {or_dash(run.level), {}, run.level.empty() ? "" : colours.of(run.level)},
                               {or_dash(run.type)},
                               {or_dash(run.size)},
                               ms_cell(run.kernel_ms),
                               ms_cell(run.rest_ms()),
                               ms_cell(run.total_ms),
                               {or_dash(run.verified)},
                               {std::to_string(run.exit_code), run.exit_code},
                               {run.source}},
                              run.exit_code == 0 ? Mark::none : Mark::bad});
    }
    section.blocks.emplace_back(std::move(table));
    document.sections.push_back(std::move(section));
}

}  // namespace

ReportDocument document_of(const Report& report) {
    const LevelColours colours(report.now);
    ReportDocument document = {"gpumat report", {}};
    const std::string made = fmt::format("Of {}, made by gpumat {} at {}.", fmt::join(report.names, ", "),
                                         version(), origin_of_this_run().time);
    document.sections.push_back({"", {ReportText{made}}});
    document.sections.push_back(failures_section(report));
    if (report.comparison) document.sections.push_back(comparison_section(report, colours));
    document.sections.push_back(environment_section(report));
    add_sections_of_rates(report.now, colours, document);
    add_roofline_section(report.now, colours, document);
    add_measurements(report.now, colours, document);
    add_runs(report.now, colours, document);
    return document;
}

}  // namespace gpumat
