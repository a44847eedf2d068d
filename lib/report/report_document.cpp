#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>

#include "lib/measure/bench_export.hpp"
#include "lib/record/origin.hpp"
#include "lib/record/record.hpp"
#include "lib/record/version.hpp"
#include "lib/report/report_sections.hpp"

namespace gpumat {
namespace {

constexpr std::size_t kMostFailures = 200;
constexpr std::size_t kMostTimelines = 6;

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
