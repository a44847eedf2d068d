#include "lib/report/report.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/options/common_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/table.hpp"
#include "cli/terminal/text_file.hpp"
#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "lib/charts/gnuplot.hpp"
#include "lib/output/atomic_output.hpp"
#include "lib/record/record.hpp"

namespace gpumat::cli {
namespace {

struct ReportOptions {
    std::vector<std::string> logs;
    std::vector<std::string> against;
    std::string output;
    std::string threshold = "5%";
    std::vector<std::string> fail_on;
    bool force = false;
    bool csv = false;
};

double parse_threshold(const std::string& text) {
    double percent = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, percent);
    if (error != std::errc{} || std::string(rest, end) != "%" || !std::isfinite(percent) || percent < 0)
        throw Error(ErrorCode::usage, "--threshold is '" + text + "'; expected a percentage, such as 5%");
    return percent / 100;
}

std::vector<LogText> read_texts(const std::vector<std::string>& paths) {
    std::vector<LogText> texts;
    for (const std::string& path : paths)
        texts.push_back({path == "-" ? "standard input" : path, text_of_file(path)});
    return texts;
}

/// Opens the output, and finds what stands in its way, before anything is read.
std::optional<AtomicOutput> open_page(const ReportOptions& options) {
    if (options.output.empty()) return std::nullopt;
    const bool html = options.output.ends_with(".html");
    if (!html && !options.output.ends_with(".md"))
        throw Error(ErrorCode::usage,
                    "--output is '" + options.output + "'; expected a name in .html or .md");
    if (html) require_gnuplot(options.output, "a report in .md needs none");
    std::vector<std::string> inputs = options.logs;
    inputs.insert(inputs.end(), options.against.begin(), options.against.end());
    return std::optional<AtomicOutput>(std::in_place, options.output,
                                       options.force ? OutputMode::replace : OutputMode::create, inputs);
}

void write_page(const Report& report, const std::string& path, AtomicOutput& output) {
    const ReportDocument document = document_of(report);
    const std::string text = path.ends_with(".html") ? html_of(document, path) : markdown_of(document);
    if (const int failed = gpumat::write_all(output.descriptor(), text); failed != 0)
        throw Error(ErrorCode::output, "cannot write " + path + ": " +
                                           std::error_code(failed, std::generic_category()).message());
    output.commit();
    spdlog::info("wrote {}", path);
}

/// What --fail-on may name.
struct FailedChange {
    const char* name;
    Change change;
    const char* said;
};
constexpr std::array kFailedChanges = {
    FailedChange{"slower", Change::slower, "slower"},
    FailedChange{"unknown", Change::unknown, "neither slower nor faster nor surely the same"}};

std::string shown(const Measured& one) {
    return fmt::format("{} {} {} {}", one.op, one.label, one.type, to_string(one.size));
}

bool fails_on(const ReportOptions& options, const char* name) {
    return std::ranges::find(options.fail_on, name) != options.fail_on.end();
}

/// What is there of --fail-on, in words. Nothing is known of what was measured before alone.
std::vector<std::string> failed_changes(const Report& report, const ReportOptions& options) {
    std::vector<std::string> failed;
    for (const FailedChange& one : kFailedChanges) {
        if (fails_on(options, one.name) && report.has(one.change))
            failed.push_back(fmt::format("{} of {} measurements are {}", report.comparison->count(one.change),
                                         report.comparison->rows.size(), one.said));
    }
    if (fails_on(options, "unknown") && report.misses())
        failed.push_back(fmt::format("{} of what was measured before is not measured now, or failed: {}",
                                     report.comparison->only_before.size(),
                                     shown(*report.comparison->only_before.front())));
    return failed;
}

/// 1 where something is there on which to fail, 3 where a record has no end.
int exit_code_of(const Report& report, const ReportOptions& options) {
    if (!failed_changes(report, options).empty()) return static_cast<int>(ErrorCode::differs);
    return report.cut.empty() ? 0 : static_cast<int>(ErrorCode::input);
}

void print_table(const ReportTable& summary) {
    Table table(summary.columns);
    std::vector<std::size_t> right;
    for (std::size_t i = 0; i < summary.columns.size(); ++i) {
        if (std::ranges::any_of(summary.rows,
                                [&](const ReportRow& row) { return row.cells[i].number.has_value(); }))
            right.push_back(i);
    }
    for (const ReportRow& row : summary.rows) {
        std::vector<std::string> cells;
        for (const ReportCell& cell : row.cells) cells.push_back(cell.text.empty() ? "-" : cell.text);
        table.add(std::move(cells));
    }
    std::fputs(table.text(right).c_str(), stdout);
}

/// A field of RFC 4180.
std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

void print_csv(const ReportTable& summary) {
    const auto line = [](const auto& fields, const auto& text_of) {
        std::string text;
        for (const auto& field : fields) text += (text.empty() ? "" : ",") + csv_field(text_of(field));
        std::puts(text.c_str());
    };
    line(summary.columns, [](const std::string& column) { return column; });
    for (const ReportRow& row : summary.rows)
        line(row.cells, [](const ReportCell& cell) { return cell.text; });
}

void serve_report(const ReportOptions& options, Context& context) {
    if (options.csv && context.style.json)
        throw Error(ErrorCode::usage, "only one of --csv and --json can have standard output");
    if (!options.fail_on.empty() && options.against.empty())
        throw Error(ErrorCode::usage, "--fail-on needs --against: older logs to compare with");
    const double threshold = parse_threshold(options.threshold);
    auto output = open_page(options);
    const Report report =
        make_report(read_texts(options.logs), read_texts(options.against), threshold, context.registry());
    for (const std::string& source : report.cut)
        spdlog::error("{}: the record has no end; the report is made without it", source);
    context.exit_code = exit_code_of(report, options);
    if (output) write_page(report, options.output, *output);
    if (context.style.json) {
        const auto json = to_json(report, context.exit_code);
        std::puts(json_text(json, 1).c_str());
    }
    if (options.csv) {
        print_csv(summary_of(report));
    } else if (!output && !context.style.json) {
        print_table(summary_of(report));
    }
    for (const std::string& one : failed_changes(report, options)) spdlog::error("{}", one);
}

}  // namespace

namespace {

std::vector<std::string> names_of_failed_changes() {
    std::vector<std::string> names;
    for (const FailedChange& one : kFailedChanges) names.emplace_back(one.name);
    return names;
}

}  // namespace

void add_report(Command& tool, Context& context) {
    Command& command = tool.command("report", "make one page of run records and bench results");
    auto options = std::make_shared<ReportOptions>();
    command
        .option("logs", &options->logs,
                "logs of --log, and what --json of bench, verify and probe printed; '-' is standard input")
        .required()
        .value(kFile);
    command.begin_group("Output");
    command
        .option("-o,--output", &options->output,
                "the page: FILE.html or FILE.md; without it a table of runs and of measurements is printed")
        .value(kFile);
    command.flag("--csv", &options->csv, "print that table as CSV");
    command.flag("--force", &options->force, "replace an existing page");
    command.begin_group("Comparison");
    command.option("--against", &options->against, "older logs to compare with").value(kFile);
    command.option("--threshold", &options->threshold, "a smaller change of a median counts as the same")
        .value("PERCENT")
        .shows_default();
    command
        .list("--fail-on", &options->fail_on,
              "slower, unknown or both: exit code 1 where there is such a measurement; unknown is also what "
              "the "
              "older logs alone have")
        .choices(names_of_failed_changes());
    add_style_options(command, context.style);
    command.footer =
        "Examples:\n"
        "  gpumat report runs.jsonl\n"
        "  gpumat report runs.jsonl -o report.html\n"
        "  gpumat bench transpose --json > new.json\n"
        "  gpumat report new.json -o report.html --against old.json --fail-on slower\n\n"
        "Slower and faster is what has 95 % intervals that are apart and medians that\n"
        "differ by more than the threshold. Of the rest, unknown is what has too few\n"
        "samples for an interval, one that is wider than 1 %, or a failure. Of repeats\n"
        "each is judged: one that is slower than all before is not hidden by others.\n\n"
        "Exit codes: 1 with --fail-on, 3 where a log or a record is none, 4 where the\n"
        "page cannot be written or gnuplot is missing (a page in .md needs none).";
    command.run = [options, &context] { serve_report(*options, context); };
}

}  // namespace gpumat::cli
