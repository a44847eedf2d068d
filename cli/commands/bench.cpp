#include "lib/measure/bench.hpp"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "cli/options/common_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/options/value_names.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/interrupt.hpp"
#include "cli/terminal/progress.hpp"
#include "core/error.hpp"
#include "lib/measure/bench_export.hpp"
#include "lib/output/atomic_output.hpp"
#include "lib/report/plot.hpp"

namespace gpumat::cli {
namespace {

struct BenchRequest {
    BenchOptions bench;
    std::string operation;
    std::vector<std::string> sizes;
    std::vector<std::string> types;
    std::string verify = "auto";
    bool csv = false;
    bool markdown = false;
    std::string plot;
    bool force = false;
};

/// Writes the results to standard output as they come, and shows what is being measured.
class Reporter {
  public:
    Reporter(const BenchRequest& request, const Style& style)
        : request_(request), json_(style.json), progress_(shows_progress(style)) {}

    void head(const BenchHead& head) {
        head_ = head;
        if (!head.device_reason.empty()) spdlog::info("{}", head.device_reason);
        if (json_) return write(json_begin(head), json_end());
        if (request_.csv) return write(csv_begin(head));
        if (request_.markdown) return write(markdown_begin(head));
        set_widths();
        write(describe(head) + "\n\n" + line(table_header(head)));
    }

    void row(const BenchRow& row) {
        if (!request_.plot.empty()) {
            rows_.push_back(row);
            rows_.back().samples_ms.clear();
        }
        if (json_) {
            write(json_row(row, std::exchange(first_, false)), json_end());
        } else if (request_.csv) {
            write(csv_row(head_, row));
        } else if (request_.markdown) {
            write(markdown_row(row));
        } else {
            write_table_row(row);
        }
    }

    void progress(const BenchProgress& progress) const {
        if (!progress_) return;
        std::fprintf(stderr, "%s[%zu/%zu] %s", kClearLine, progress.row, progress.row_count,
                     progress.what.c_str());
        std::fflush(stderr);
    }

    /// Ends the output. A bench that failed before its first row leaves none.
    void end() {
        if (json_ && !head_.version.empty()) write(json_end());
    }

    [[nodiscard]] const BenchHead& head() const { return head_; }
    [[nodiscard]] const std::vector<BenchRow>& rows() const { return rows_; }

  private:
    void write_table_row(const BenchRow& row) {
        const bool new_problem = !first_ && !(row.type == last_type_ && row.size == last_size_);
        const bool ladder = head_.labels.size() > 3;  // a few curves of a sweep read better without gaps
        first_ = false;
        last_type_ = row.type;
        last_size_ = row.size;
        std::string text = new_problem && ladder ? "\n" : "";
        const std::string remark = table_remark(row);
        if (row.ran_at_all()) {
            text += line(table_cells(row));
            if (!remark.empty()) text += "    " + remark + "\n";
        } else {
            const auto cells = table_cells(row);
            text += line({cells[0], cells[1], remark});
        }
        write(text);
    }

    void set_widths() {
        widths_ = {7, 5, 9, 7, 8, 9, 8, 10, 0};
        constexpr std::size_t kEntriesWidth = 10;
        if (!head_.sparse.empty()) widths_.insert(widths_.end() - 5, kEntriesWidth);
        for (const std::string& label : head_.labels) widths_[1] = std::max(widths_[1], label.size());
        for (const Type type : request_.bench.types) {
            for (const Extents& size : request_.bench.sizes)
                widths_[0] = std::max(widths_[0], name_of(type).size() + 1 + to_string(size).size());
        }
    }

    /// Texts flush left, numbers flush right.
    [[nodiscard]] std::string line(const std::vector<std::string>& cells) const {
        std::string text;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const bool last = i + 1 == cells.size();
            const std::string gap(widths_[i] > cells[i].size() && !last ? widths_[i] - cells[i].size() : 0,
                                  ' ');
            const bool left = i < 2 || last;
            text += (i > 0 ? "  " : "") + (left ? cells[i] + gap : gap + cells[i]);
        }
        return text + "\n";
    }

    /// One piece of output, whole and at once. After it, an interrupt would write `end`.
    void write(const std::string& text, const char* end = "") {
        interrupt_.begin_piece();
        if (progress_) std::fputs(kClearLine, stderr);
        std::fputs(text.c_str(), stdout);
        std::fflush(stdout);
        interrupt_.set_end(end, progress_ ? kClearLine : "");
        interrupt_.end_piece();
        flush_standard_output();
    }

    const BenchRequest& request_;
    bool json_;
    bool progress_;
    bool first_ = true;
    Type last_type_ = Type::f32;
    Extents last_size_;
    BenchHead head_;
    std::vector<BenchRow> rows_;
    std::vector<std::size_t> widths_;
    FinishOnInterrupt interrupt_;
};

/// Turns texts into values and refuses what contradicts itself.
void finish_options(BenchRequest& request, const Context& context) {
    BenchOptions& bench = request.bench;
    const Operation& operation = context.operation(request.operation);
    bench.operation = &operation;
    bench.command_line = context.command_line;
    if (request.sizes.empty()) request.sizes = {std::string(operation.bench_size)};
    for (const std::string& text : request.sizes) {
        const auto sizes = parse_bench_sizes(text, operation);
        bench.sizes.insert(bench.sizes.end(), sizes.begin(), sizes.end());
    }
    for (const std::string& text : request.types) bench.types.push_back(parse_type(text));
    bench.verify = *verify_mode_from_name(request.verify);
    if (int{context.style.json} + int{request.csv} + int{request.markdown} > 1)
        throw Error(ErrorCode::usage, "only one of --json, --csv and --markdown can have standard output");
}

void run(BenchRequest& request, Context& context) {
    finish_options(request, context);
    std::optional<AtomicOutput> plot;
    if (!request.plot.empty()) {
        require_plot_possible(request.plot);
        plot.emplace(request.plot, request.force ? OutputMode::replace : OutputMode::create);
    }
    Reporter reporter(request, context.style);
    const BenchListener listener = {.head = [&](const BenchHead& head) { reporter.head(head); },
                                    .row = [&](const BenchRow& row) { reporter.row(row); },
                                    .progress = [&](const BenchProgress& now) { reporter.progress(now); },
                                    .say = say};
    try {
        context.exit_code = run_bench(request.bench, context.registry(), listener);
    } catch (const Error&) {
        reporter.end();
        throw;
    }
    reporter.end();
    if (context.exit_code == static_cast<int>(ErrorCode::differs))
        spdlog::error("a result failed verification");
    if (context.exit_code == static_cast<int>(ErrorCode::unsupported)) spdlog::error("no level could run");
    if (!plot) return;
    draw_plot(reporter.head(), reporter.rows(), request.plot, plot->path());
    plot->commit();
    spdlog::info("wrote {}", request.plot);
}

/// The options of all operations and of all their levels, each name once.
void add_rows_options(Command& command, BenchOptions& bench, const Registry& registry) {
    const auto is_new = [&](const std::string& name) { return command.find("--" + name) == nullptr; };
    for (const Operation* operation : registry.operations()) {
        for (const Setting& setting : operation->settings) {
            if (setting.benched && is_new(std::string(setting.name)))
                add_setting(command, setting, bench.settings);
        }
        for (const Parameter& parameter : registry.parameters(*operation)) {
            const std::string name(parameter.name);
            if (!is_new(name)) continue;
            Option& option = command.list(
                "--" + name,
                [&bench, name](const std::vector<std::string>& values) { bench.parameters[name] = values; },
                "values of --" + name + " to try, for the levels that have one");
            option.suggests(parameter_choices(registry, nullptr, name));
        }
    }
}

void add_what(Command& command, BenchRequest& request, const Context& context) {
    command.begin_group("What is measured");
    BenchOptions& bench = request.bench;
    add_operation_name(command, request.operation, context).required();
    std::string sizes;
    for (const Operation* operation : context.registry().operations())
        sizes += (sizes.empty() ? "" : ", ") + std::string(operation->name) + " " +
                 std::string(operation->bench_size);
    command.list("-s,--size", &request.sizes, "N, MxN or MxNxK, FROM:TO:STEP (default: " + sizes + ")");
    command.list("-l,--levels", &bench.levels, "all, auto, or levels by name or number")
        .suggests(level_names(context.registry(), nullptr));
    request.types = {"f32"};
    suggest_types(command.list("-t,--type", &request.types, "element types").shows_default("f32"));
    command.list("-a,--against", &bench.against, "baselines: all, none, vendor, memcpy, copy, …");
    add_device(command, bench.device);
    add_rows_options(command, bench, context.registry());
    add_sparse_inputs(command, bench.sparse);
}

void add_how(Command& command, BenchRequest& request) {
    command.begin_group("How it is measured");
    BenchOptions& bench = request.bench;
    command.flag("--hot", &bench.hot, "keep one set of matrices, in the cache if it fits");
    add_time_limit(command, bench.time_limit_s, "most seconds of samples for a row");
    command.option("--verify", &request.verify, "check of the first result: auto, full, freivalds or none")
        .choices({"auto", "full", "freivalds", "none"})
        .shows_default()
        .from_environment();
    add_threads(command, bench.threads, "CPU threads");
    add_seed(command, bench.seed, "seed of the random matrices");
    add_memory_limit(command, bench.memory_limit, "most host memory, such as 4GiB");
}

void add_results(Command& command, BenchRequest& request, Style& style) {
    command.begin_group("Results");
    command.flag("--csv", &request.csv, "print comma-separated values, with every sample");
    command.flag("--markdown", &request.markdown, "print a table in Markdown");
    command.option("--plot", &request.plot, "draw bars, or curves over several sizes: FILE.svg or FILE.png")
        .value(kFile);
    command.flag("--force", &request.force, "replace an existing plot");
    add_style_options(command, style);
}

}  // namespace

void add_bench(Command& tool, Context& context) {
    Command& command = tool.command("bench", "measure levels against each other and against copies");
    auto request = std::make_shared<BenchRequest>();
    add_what(command, *request, context);
    add_how(command, *request);
    add_results(command, *request, context.style);
    command.footer =
        "Every row is verified, warmed up, then timed with a cold cache until the median\n"
        "is known within 1 % (95 % confidence). 'of copy' is the share of the faster of\n"
        "memcpy and copy at the same size.\n"
        "\nExamples:\n"
        "  gpumat bench transpose --size 4096\n"
        "  gpumat bench transpose --in-place --size 4096,8192 --against copy,padded\n"
        "  gpumat bench multiply --size 512,1024 --levels tiled,vendor --type f32,f64 \\\n"
        "    --json > bench.json\n"
        "  gpumat bench transpose --size 1000000 --entries 5000000 --pattern power-law\n"
        "  gpumat bench multiply --size 100000x64x100000 --sparse A --entries 1000000\n"
        "  gpumat bench transpose --size 500:4000:4 --levels padded,diagonal,auto \\\n"
        "    --against copy --time-limit 0.05 --csv --plot sweep.svg > sweep.csv";
    command.run = [request, &context] { run(*request, context); };
}

}  // namespace gpumat::cli
