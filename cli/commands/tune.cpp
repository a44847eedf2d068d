#include "lib/measure/tune.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/options/common_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/terminal/table.hpp"
#include "cli/terminal/text.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "core/text/printable.hpp"
#include "lib/measure/bench_export.hpp"
#include "lib/record/record.hpp"

namespace gpumat::cli {
namespace {

struct TuneRequest {
    TuneOptions tune;
    std::string operation;
    std::vector<std::string> types;
    std::vector<std::string> sizes;
    bool show = false;
    bool clear = false;
    std::optional<double> within_s;
};

/// How long it may take in all, unless --within says it: most rows take longer to prepare and to verify than
/// to sample.
constexpr double kTimesSamples = 20;
constexpr double kLeastWithinS = 60;
constexpr double kMostWithinS = 1e7;

/// How far all of it has come.
struct TuneStatus {
    Stopwatch watch;
    TuneCount count;
    double within_s = 0;
    std::size_t ended = 0;  ///< classes
    std::size_t late = 0;

    [[nodiscard]] std::string text() const {
        return fmt::format("{} of {} classes, {:.0f} of at most {:.4g} s", ended, count.classes,
                           watch.elapsed_ms() / 1e3, within_s);
    }
};

/// Shows what is being measured and, with -v, each winner at once; the table comes at the end.
TuneListener make_listener(const Operation& operation, const Style& style, TuneStatus& status) {
    TuneListener listener;
    listener.say = say;
    listener.tuned = [&operation, &status](const TunedLevel& entry) {
        spdlog::debug("{} {} {}: {} ({})", name_of(operation), name_of(entry.size_class), entry.element,
                      label_of(entry.level, entry.parameters), status.text());
    };
    listener.late = [&status](std::size_t classes) { status.late += classes; };
    listener.ended = [&status](std::size_t classes) { status.ended += classes; };
    listener.skipped = [](SizeClass size_class, const Extents& size, const std::string& reason) {
        spdlog::warn("left out {} ({}): {}", name_of(size_class), to_string(size), reason);
    };
    listener.failed = [](const BenchRow& row) {
        spdlog::error("level '{}' failed verification on {} {}", row.level, name_of(row.type),
                      to_string(row.size));
    };
    if (shows_progress(style)) {
        listener.progress = [&operation, &status](const BenchProgress& now) {
            show_line(fmt::format("{} {} ({})", name_of(operation), now.what, status.text()));
        };
    }
    return listener;
}

std::string rate(const Tuning& tuning, const TunedLevel& entry) {
    // All types of an element kind have one size, so any of them stands for it.
    for (const Type type : all_types()) {
        if (tuning.operation->tunable->element_kind(type) != entry.element) continue;
        const Problem problem = {.operation = tuning.operation,
                                 .type = type,
                                 .m = entry.size.m,
                                 .n = entry.size.n,
                                 .k = entry.size.k};
        const bool computes = problem.flops() > 0;
        return four_digits((computes ? problem.flops() : problem.bytes()) / entry.median_ms / 1e6) +
               (computes ? " GFLOP/s" : " GB/s");
    }
    return "-";
}

void print_table(const TuningFile& file) {
    std::printf("%s on %s: %s\n", std::string(name_of(*file.tuning.operation)).c_str(),
                file.tuning.device_name.c_str(), printable(file.path).c_str());
    if (file.tuning.entries.empty()) {
        std::puts("  nothing measured; auto uses the shipped table");
        return;
    }
    Table table({"elements", "class", "measured at", "level", "ms", "rate", "date"});
    for (const TunedLevel& entry : file.tuning.entries) {
        table.add({entry.element, std::string(name_of(entry.size_class)), to_string(entry.size),
                   label_of(entry.level, entry.parameters), four_digits(entry.median_ms),
                   rate(file.tuning, entry), entry.date});
    }
    std::fputs(table.text({4, 5}).c_str(), stdout);
}

void remove_file(const std::string& path) {
    std::error_code error;
    if (std::filesystem::remove(path, error)) spdlog::info("removed {}", path);
    if (error) throw Error(ErrorCode::output, "cannot remove " + path + ": " + error.message());
}

/// Turns texts into values and refuses what contradicts itself.
void finish_options(TuneRequest& request, const Operation& operation) {
    TuneOptions& tune = request.tune;
    tune.operation = &operation;
    tune.types.clear();
    tune.sizes.clear();
    for (const std::string& text : request.types) tune.types.push_back(parse_type(text));
    for (const std::string& text : request.sizes) {
        const auto sizes = parse_bench_sizes(text, operation);
        tune.sizes.insert(tune.sizes.end(), sizes.begin(), sizes.end());
    }
}

/// Measures, shows or clears one operation's file, and gives what it then holds.
TuningFile serve(TuneRequest& request, const Operation& operation, TuneStatus& status, Context& context) {
    finish_options(request, operation);
    if (request.clear) {
        TuningFile file = open_tuning(request.tune, context.registry());
        remove_file(file.path);
        file.tuning.entries.clear();
        return file;
    }
    if (!request.show) {
        const int code =
            run_tune(request.tune, context.registry(), make_listener(operation, context.style, status));
        if (code != 0) context.exit_code = code;
    }
    TuningFile file = open_tuning(request.tune, context.registry());
    if (!file.why_not.empty()) spdlog::warn("{} is ignored: {}", file.path, file.why_not);
    return file;
}

nlohmann::ordered_json overhead_json(const OverheadFile& file) {
    if (!file.overhead) return nullptr;
    return {{"path", file.path},
            {"start_ms", file.overhead->start_ms},
            {"input_ms_per_gb", file.overhead->input_ms_per_gb},
            {"result_ms_per_gb", file.overhead->result_ms_per_gb}};
}

void print_overhead(const OverheadFile& file) {
    if (!file.overhead) return;
    std::printf("beside computing: %s ms to start, %s ms for a GB of inputs, %s of results: %s\n",
                four_digits(file.overhead->start_ms).c_str(),
                four_digits(file.overhead->input_ms_per_gb).c_str(),
                four_digits(file.overhead->result_ms_per_gb).c_str(), printable(file.path).c_str());
}

/// The same as `serve` of what the device takes whatever the operation.
OverheadFile serve_overhead(const TuneRequest& request, const Registry& registry) {
    if (!request.show && !request.clear) tune_overhead(request.tune, registry);
    OverheadFile file = open_overhead(request.tune, registry);
    if (request.clear) {
        remove_file(file.path);
        file.overhead.reset();
    } else if (!file.why_not.empty()) {
        spdlog::warn("{} is ignored: {}", file.path, file.why_not);
    }
    return file;
}

/// Counts what is to be measured, says so, and sets when it ends.
void set_deadline(TuneRequest& request, const std::vector<const Operation*>& operations,
                  const Registry& registry, TuneStatus& status) {
    for (const Operation* operation : operations) {
        finish_options(request, *operation);
        const TuneCount count = count_of(request.tune, registry);
        status.count.classes += count.classes;
        status.count.rows += count.rows;
    }
    const double samples_s = request.tune.time_limit_s * static_cast<double>(status.count.rows);
    status.within_s =
        request.within_s.value_or(std::clamp(kTimesSamples * samples_s, kLeastWithinS, kMostWithinS));
    const auto left_ms = static_cast<std::int64_t>(status.within_s * 1e3 - status.watch.elapsed_ms());
    request.tune.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(left_ms);
    spdlog::info("measures {} classes, at most {} times a level, for at most {:.4g} s (--within)",
                 status.count.classes, status.count.rows, status.within_s);
}

void tell_end(const TuneStatus& status) {
    clear_line();
    spdlog::info("measured {} of {} classes in {:.3g} s", status.ended - status.late, status.count.classes,
                 status.watch.elapsed_ms() / 1e3);
    if (status.late > 0)
        spdlog::warn("the time is over: {} classes stay as they were; --within gives more", status.late);
}

void run(TuneRequest& request, Context& context) {
    TuneStatus status;
    std::vector<const Operation*> operations;
    for (const Operation* operation : context.registry().operations()) {
        if (request.operation.empty() ? operation->tunable != nullptr : request.operation == operation->name)
            operations.push_back(operation);
    }
    request.tune.operation = operations.front();
    const OverheadFile overhead = serve_overhead(request, context.registry());
    const bool measures = !request.show && !request.clear;
    if (measures) set_deadline(request, operations, context.registry(), status);
    nlohmann::ordered_json tunings = nlohmann::ordered_json::array();
    for (const Operation* operation : operations) {
        const TuningFile file = serve(request, *operation, status, context);
        if (context.style.json) {
            tunings.push_back({{"path", file.path}, {"tuning", to_json(file.tuning)}});
        } else if (!request.clear) {
            print_table(file);
        }
    }
    if (measures) tell_end(status);
    if (!context.style.json) {
        print_overhead(overhead);
        return;
    }
    const nlohmann::ordered_json all = {{"schema", "gpumat.tunings/1"},
                                        {"tunings", std::move(tunings)},
                                        {"overhead", overhead_json(overhead)}};
    std::puts(json_text(all, 1).c_str());
}

}  // namespace

void add_tune(Command& tool, Context& context) {
    Command& command = tool.command("tune", "measure which level is the fastest here, for 'auto' to take");
    auto request = std::make_shared<TuneRequest>();
    TuneOptions& tune = request->tune;
    std::vector<std::string> tunable;
    for (const Operation* operation : context.registry().operations())
        if (operation->tunable != nullptr) tunable.emplace_back(operation->name);
    command.option("operation", &request->operation, joined(tunable, " or ") + "; all where left out")
        .choices(tunable);
    command.begin_group("What is measured");
    add_device(command, tune.device);
    suggest_types(command.list("-t,--type", &request->types,
                               "element types (default: one for each kind that is measured apart)"));
    command.list("-s,--size", &request->sizes,
                 "N, MxN or MxNxK, each to stand for its class (default: one of every class)");
    command.begin_group("How it is measured");
    add_time_limit(command, tune.time_limit_s, "most seconds of samples for a level");
    command
        .option("--within", &request->within_s,
                "most seconds in all; classes that are left then stay as they were (default: 20 times "
                "the samples of all levels, and 60 at least)")
        .within(1e-3, kMostWithinS)
        .check(require_number);
    add_threads(command, tune.threads, "CPU threads that the measurements are for");
    add_seed(command, tune.seed, "seed of the random matrices");
    add_memory_limit(command, tune.memory_limit, "most host memory, such as 4GiB");
    command.begin_group("What is stored");
    Option& show = command.flag("--show", &request->show, "measure nothing, print what is stored");
    command.flag("--clear", &request->clear, "measure nothing, remove what is stored").excludes(show);
    add_style_options(command, context.style);
    command.footer =
        "The fastest level of every class (tiny, small, medium, large, odd, tall, wide;\n"
        "multiply: deep), and what the device takes to start and to be fed, are kept in\n"
        "$GPUMAT_CACHE, else $XDG_CACHE_HOME/gpumat, else ~/.cache/gpumat, one file for\n"
        "each operation and device. GPUMAT_CACHE= (empty) makes every command ignore it.\n"
        "They are those of dense matrices; of sparse ones 'auto' is the shipped choice,\n"
        "which 'gpumat bench --sparse' and --entries measure beside the other levels.\n"
        "\nExamples:\n"
        "  gpumat tune\n"
        "  gpumat tune transpose --type f32 --size 12288\n"
        "  gpumat tune --show";
    command.run = [request, &context] { run(*request, context); };
}

}  // namespace gpumat::cli
