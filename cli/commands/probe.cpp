#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/options/common_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/table.hpp"
#include "cli/terminal/text.hpp"
#include "core/error.hpp"
#include "lib/choose/device.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/measure/probe.hpp"
#include "lib/output/atomic_output.hpp"
#include "lib/record/record.hpp"
#include "lib/report/plot.hpp"

namespace gpumat::cli {
namespace {

struct ProbeRequest {
    ProbeOptions probe;
    std::string name;
    std::string type = "f32";
    std::string plot;
    bool force = false;
};

std::string table_text(const ProbeTable& table) {
    Table text(table.columns);
    std::vector<std::size_t> right;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const bool numbers = std::ranges::none_of(
            table.rows, [&](const auto& row) { return std::holds_alternative<std::string>(row[i]); });
        if (numbers) right.push_back(i);
    }
    for (const auto& row : table.rows) {
        std::vector<std::string> cells;
        for (const ProbeCell& cell : row) cells.push_back(cell_text(cell));
        text.add(std::move(cells));
    }
    return (table.title.empty() ? "" : table.title + "\n\n") + text.text(right);
}

void print_run(const ProbeRun& run) {
    std::printf("%s\n\n", run.name.c_str());
    if (!run.reason.empty()) std::printf("could not run: %s\n\n", run.reason.c_str());
    for (const ProbeTable& table : run.result.tables) std::printf("%s\n", table_text(table).c_str());
    for (const std::string& sentence : run.result.shows) std::printf("%s\n", sentence.c_str());
    if (!run.result.shows.empty()) std::puts("");
}

void serve_probe(ProbeRequest& request, Context& context) {
    request.probe.type = parse_type(request.type);
    const bool all = request.name == "all";
    std::optional<AtomicOutput> plot;
    if (!request.plot.empty()) {
        if (all) throw Error(ErrorCode::usage, "--plot draws one probe; name it instead of 'all'");
        require_plot_possible(request.plot);
        plot.emplace(request.plot, request.force ? OutputMode::replace : OutputMode::create);
    }
    const Operation& any = *context.registry().operations().front();
    const DeviceChoice choice =
        choose_device(request.probe.device, any, "auto", request.probe.threads, context.registry());
    const ProbeContext probing = {request.probe, context.registry(), choice.device, say};
    std::vector<ProbeRun> runs;
    if (all) {
        runs = run_probes(probing);
    } else {
        runs.push_back(run_probe(*std::ranges::find(probes(), request.name, &Probe::name), probing));
    }
    if (context.style.json) {
        std::puts(json_text(to_json(runs, recorded_device(choice.device), context.command_line), 1).c_str());
    } else {
        for (const ProbeRun& run : runs) print_run(run);
    }
    if (!plot) return;
    const auto& chart = runs.front().result.chart;
    if (!chart) throw Error(ErrorCode::unsupported, "--plot: these results are a table, and no curve");
    draw_chart(*chart, request.plot, plot->path());
    plot->commit();
    spdlog::info("wrote {}", request.plot);
}

}  // namespace

void add_probe(Command& tool, Context& context) {
    Command& command = tool.command("probe", "measure what the ladders rest on, on the device at hand");
    auto request = std::make_shared<ProbeRequest>();
    ProbeOptions& probe = request->probe;
    std::vector<std::string> names;
    std::string list;
    constexpr std::size_t kNameColumn = 16;
    for (const Probe& one : probes()) {
        names.emplace_back(one.name);
        list += two_columns("  " + std::string(one.name), std::string(one.question), kNameColumn);
    }
    names.emplace_back("all");
    command.option("name", &request->name, "one of those below, or all")
        .required()
        .choices(names)
        .value("NAME");
    command.begin_group("What is measured");
    add_device(command, probe.device);
    command.option("-s,--size", &probe.size, "side of the matrices, where levels are measured")
        .within(std::int64_t{1}, std::int64_t{1} << 20);
    suggest_types(command.option("-t,--type", &request->type, "element type, where levels are measured")
                      .shows_default());
    add_time_limit(command, probe.time_limit_s, "most seconds of samples for a measured row");
    add_threads(command, probe.threads, "CPU threads");
    add_seed(command, probe.seed, "seed of the random matrices");
    command.begin_group("Occupancy");
    command.option("--compute-capability", &probe.compute_capability,
                   "of a device of that kind, such as 8.6; it need not be here");
    command.option("--block", &probe.block_threads, "threads of a block").within(1, 1024);
    command.option("--registers", &probe.registers, "registers of a thread").within(1, 255);
    command.option("--shared-bytes", &probe.shared_bytes, "shared memory of a block").within(0, 1 << 20);
    command.begin_group("Results");
    command.option("--plot", &request->plot, "draw the curves: FILE.svg or FILE.png").value(kFile);
    command.flag("--force", &request->force, "replace an existing plot");
    add_style_options(command, context.style);
    command.footer = "Probes:\n" + list +
                     "\nExamples:\n"
                     "  gpumat probe coalescing --plot coalescing.svg\n"
                     "  gpumat probe occupancy --compute-capability 8.6 --block 256 --registers 40\n"
                     "  gpumat probe all --json > probes.json\n\n"
                     "Exit code 5 where the device is not one that can be asked, with the reason.";
    command.run = [request, &context] { serve_probe(*request, context); };
}

}  // namespace gpumat::cli
