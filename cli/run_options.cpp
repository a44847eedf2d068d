#include "cli/run_options.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/common_options.hpp"
#include "lib/core/error.hpp"
#include "lib/record.hpp"
#include "lib/run.hpp"

namespace gpumat::cli {
namespace {

constexpr int kMostRepeats = 1'000'000;

void add_parameter(CLI::App& command, SharedOptions& shared, const std::string& name,
                   const std::string& help) {
    command.add_option_function<int>(
        "--" + name, [&shared, name](int value) { shared.run.parameters[name] = value; }, help);
}

void add_level_options(CLI::App& command, SharedOptions& shared) {
    RunOptions& run = shared.run;
    command.add_option("-l,--level", run.level, "optimization level, by name or number (see: gpumat levels)")
        ->capture_default_str();
    command.add_option("-d,--device", run.device, "auto, cpu, gpu or gpu:N")->capture_default_str();
    add_parameter(command, shared, "tile", "tile of a level that has one");
    add_parameter(command, shared, "block", "rows of threads of a level that has them");
    add_parameter(command, shared, "pack",
                  "how a level that can pack takes its operands (see: gpumat levels -v)");
    add_parameter(command, shared, "vector", "bits of the vector registers of a level that uses them");
    add_threads(command, run.threads, "CPU threads");
}

void add_output_options(CLI::App& command, SharedOptions& shared) {
    RunOptions& run = shared.run;
    CLI::Option* output = command.add_option("-o,--output", run.output,
                                             "FILE or FILE:/DATASET to write, '-' for standard output; "
                                             "without it the run is verified and timed only");
    // The others say how it is written.
    const std::array others = {
        command.add_option("--to", run.output_format,
                           "output format: hdf5 or matrix-market (default: by extension)"),
        command.add_flag("--force", run.force, "replace an existing output"),
        command.add_flag("--keep-failed", run.keep_failed, "write the result even where verification fails"),
        command.add_option("--chunk", shared.chunk, "HDF5 chunk, ROWSxCOLS"),
        command.add_option("--deflate", run.write.deflate, "HDF5 compression, 0 to 9")
            ->check(CLI::Range(0, 9)),
        command.add_flag("--shuffle", run.write.shuffle, "HDF5 byte shuffle before compression")};
    for (CLI::Option* option : others) option->needs(output);
}

/// What is wrong with a value of --tolerance; empty where nothing is.
std::string require_tolerance(const std::string& text) {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value);
    if (number && value >= 0 && std::isfinite(value)) return "";
    return "is '" + text + "'; expected a finite number that is not negative";
}

void add_checking_options(CLI::App& command, SharedOptions& shared) {
    RunOptions& run = shared.run;
    command.add_option("--verify", shared.verify, "auto, full, freivalds or none")
        ->check(CLI::IsMember({"auto", "full", "freivalds", "none"}))
        ->capture_default_str();
    command.add_option("--tolerance", run.tolerance, "relative error to allow instead of the derived bound")
        ->check(require_tolerance);
    add_seed(command, run.seed, "seed of the randomized check");
}

void add_run_control(CLI::App& command, SharedOptions& shared) {
    RunOptions& run = shared.run;
    command.add_option("-t,--type", shared.type,
                       "convert the inputs first: i8 … i64, u8 … u64, f16, bf16, f32, f64, c64, c128");
    command
        .add_option("--log", shared.log,
                    "append the run record: JSON Lines, or CSV for a name in .csv; '-' is standard output")
        ->check([](const std::string& name) {
            return name.empty() ? std::string("is empty; expected a file name") : std::string();
        });
    command.add_option("--repeat", run.repeat, "timed runs of the level")->check(CLI::Range(1, kMostRepeats));
    command.add_option("--warmup", run.warmup, "runs before those")->check(CLI::Range(0, kMostRepeats));
    command.add_flag("--dry-run", run.dry_run, "read the headers, print the plan, write nothing");
    add_memory_limit(command, run.memory_limit, "most host memory for the matrices, such as 4GiB");
}

std::pair<std::int64_t, std::int64_t> parse_chunk(const std::string& text) {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    const char* end = text.data() + text.size();
    const auto [middle, first] = std::from_chars(text.data(), end, rows);
    if (first == std::errc{} && middle != end && *middle == 'x') {
        const auto [last, second] = std::from_chars(middle + 1, end, cols);
        if (second == std::errc{} && last == end && rows > 0 && cols > 0) return {rows, cols};
    }
    throw Error(ErrorCode::usage, "--chunk is '" + text + "'; expected ROWSxCOLS, such as 256x256");
}

/// A line appended to a matrix would destroy it. Devices and pipes may be named twice.
void refuse_log_over_matrix(const SharedOptions& shared) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (shared.log.empty() || (fs::exists(shared.log, ignored) && !fs::is_regular_file(shared.log, ignored)))
        return;
    const RunOptions& run = shared.run;
    for (const std::string& text : {run.a, run.b, run.d.value_or(""), run.output.value_or("")}) {
        const std::string path = formats::parse_reference(text).path;
        if (path.empty() || path == "-") continue;
        if (fs::equivalent(shared.log, path, ignored) ||
            fs::weakly_canonical(shared.log, ignored) == fs::weakly_canonical(path, ignored)) {
            throw Error(ErrorCode::output,
                        "--log " + shared.log + ": is the same file as the matrix " + path);
        }
    }
}

/// Turns texts into values and refuses what contradicts itself.
void finish_options(SharedOptions& shared, const Context& context) {
    RunOptions& run = shared.run;
    run.command_line = context.command_line;
    run.verify = *verify_mode_from_name(shared.verify);
    if (shared.type) run.type = parse_type(*shared.type);
    if (shared.chunk) run.write.chunk = parse_chunk(*shared.chunk);
    refuse_log_over_matrix(shared);
    const int on_stdout =
        (run.output == "-" ? 1 : 0) + (shared.log == "-" ? 1 : 0) + (context.style.json ? 1 : 0);
    if (on_stdout > 1) {
        throw Error(ErrorCode::usage, "only one of --output -, --log - and --json can have standard output");
    }
}

std::string rate(const RunRecord& record) {
    const double ms = *median(record.kernel_samples_ms);
    const bool multiply = record.kernel_flops > 0;
    std::string text = multiply ? fmt::format("{:.1f} GFLOP/s", record.kernel_flops / ms / 1e6)
                                : fmt::format("{:.1f} GB/s", record.kernel_bytes / ms / 1e6);
    if (record.fraction_of_bound) {
        text += fmt::format(", {:.2f} of {}", *record.fraction_of_bound,
                            multiply ? "the roofline bound" : "a device copy");
    }
    return text;
}

/// What was done, in two or three lines.
void print_summary(const RunRecord& record, bool dry_run) {
    const std::string inner = record.k ? "x" + std::to_string(*record.k) : "";
    spdlog::info("{} {} {}x{}{}, level '{}' on {}{}", record.op, record.type, record.m, record.n, inner,
                 record.level, record.device.name,
                 record.level_reason.empty() ? "" : " (" + record.level_reason + ")");
    if (dry_run) {
        spdlog::info("would move at least {} and do {:.4g} operations; only headers were read",
                     format_traffic(record.kernel_bytes), record.kernel_flops);
        return;
    }
    spdlog::info("{:.4g} ms, {}; verification: {}{}", *median(record.kernel_samples_ms), rate(record),
                 record.verification.verdict,
                 record.verification.mode == "none" ? "" : " (" + record.verification.mode + ")");
    if (record.output) {
        spdlog::info("wrote {}", formats::to_string({record.output->path, record.output->dataset}));
    }
}

}  // namespace

Type parse_type(const std::string& text) {
    if (const auto type = type_from_name(text)) return *type;
    std::string known;
    for (const Type type : all_types()) known += (known.empty() ? "" : ", ") + std::string(name_of(type));
    throw Error(ErrorCode::usage, "--type is '" + text + "'; expected one of " + known);
}

void add_reading_options(CLI::App& command, formats::ReadOptions& read) {
    command.add_flag("--as-column", read.as_column,
                     "take a one-dimensional dataset as a matrix of one column");
    command
        .add_option_function<std::string>(
            "--layout",
            [&read](const std::string& text) {
                read.layout = text == "row" ? formats::Layout::row : formats::Layout::matlab;
            },
            "dimensions of an HDF5 dataset: row as stored, matlab reversed (default: as the file says)")
        ->check(CLI::IsMember({"row", "matlab"}));
    command.add_flag("--allow-external", read.allow_external,
                     "follow HDF5 external links, external storage and virtual datasets");
}

void add_shared_options(CLI::App& command, SharedOptions& shared, Style& style) {
    add_output_options(command, shared);
    add_level_options(command, shared);
    add_checking_options(command, shared);
    add_run_control(command, shared);
    add_reading_options(command, shared.run.read);
    add_style_options(command, style);
}

void run_operation(SharedOptions& shared, Context& context) {
    RunRecord record = start_record();
    const auto finish = [&](int exit_code, const std::string& error) {
        record.exit_code = exit_code;
        record.error = error;
        if (context.style.json) std::puts(to_json(record).dump().c_str());
        if (!shared.log.empty()) append_record(shared.log, record);
    };
    // The error of the run is the one to end with, even where it cannot be logged.
    const auto finish_failed = [&](const Error& error) {
        try {
            finish(static_cast<int>(error.code()), error.what());
        } catch (const Error& log_error) {
            spdlog::error("{}", log_error.what());
        }
    };
    finish_options(shared, context);
    try {
        context.exit_code = gpumat::run(shared.run, context.registry, record);
    } catch (...) {
        finish_failed(failure_in_flight());
        throw;
    }
    print_summary(record, shared.run.dry_run);
    finish(context.exit_code, context.exit_code == 0 ? "" : "verification found a difference");
}

}  // namespace gpumat::cli
