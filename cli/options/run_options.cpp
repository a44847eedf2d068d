#include "cli/options/run_options.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/value_names.hpp"
#include "cli/terminal/last_words.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/terminal/table.hpp"
#include "core/error.hpp"
#include "lib/engines/team_files.hpp"
#include "lib/record/progress.hpp"
#include "lib/record/record.hpp"
#include "lib/record/run_log.hpp"
#include "lib/run/run.hpp"

namespace gpumat::cli {
namespace {

constexpr int kMostRepeats = 1'000'000;

void add_level_options(Command& command, SharedOptions& shared, const Registry& registry) {
    command.begin_group("Level and device");
    RunOptions& run = shared.run;
    command.option("-l,--level", &run.level, "by name or number (see: gpumat levels)")
        .suggests(level_names(registry, run.operation))
        .shows_default()
        .from_environment();
    add_device(command, run.device);
    for (const Parameter& parameter : registry.parameters(*run.operation)) {
        const std::string name(parameter.name);
        command
            .option(
                "--" + name, [&run, name](const std::string& value) { run.parameters[name] = value; },
                "of the levels that have it (see: gpumat levels -v)")
            .suggests(parameter_choices(registry, run.operation, name));
    }
    add_threads(command, run.threads, "CPU threads");
    add_engine_options(command, shared.ranks);
}

void add_output_options(Command& command, SharedOptions& shared) {
    command.begin_group("Output");
    RunOptions& run = shared.run;
    const Option& output = command
                               .option("-o,--output", &shared.output,
                                       "FILE or FILE:/DATASET to write, '-' for standard output; "
                                       "without it the run is verified and timed only")
                               .value(kReference);
    // The others say how it is written.
    std::vector<Option*> others = add_storage_options(command, shared.storage);
    others.push_back(
        &command.flag("--keep-failed", &run.keep_failed, "write the result even where verification fails"));
    for (Option* option : others) option->needs(output);
    add_structure_options(command, shared.storage);
}

void add_checking_options(Command& command, SharedOptions& shared) {
    command.begin_group("Verification");
    RunOptions& run = shared.run;
    command.option("--verify", &shared.verify, "auto, full, freivalds or none")
        .choices({"auto", "full", "freivalds", "none"})
        .shows_default()
        .from_environment();
    command
        .option("--tolerance", &run.tolerance,
                "error to allow in place of the derived bound, relative to the sum of the moduli of an "
                "element's terms")
        .check(require_non_negative);
    add_seed(command, run.seed, "seed of the randomized check");
}

void add_run_control(Command& command, SharedOptions& shared) {
    command.begin_group("Run and record");
    RunOptions& run = shared.run;
    add_log(command, shared.log,
            "append the run record: JSON Lines, or CSV for a name in .csv; '-' is standard output")
        .check([](const std::string& name) {
            return name.empty() ? std::string("is empty; expected a file name") : std::string();
        });
    command.option("--repeat", &run.repeat, "timed runs of the level").within(1, kMostRepeats);
    command.option("--warmup", &run.warmup, "runs before those").within(0, kMostRepeats);
    command.flag("--dry-run", &run.dry_run, "read the headers, print the plan, write nothing");
    add_memory_limit(command, run.memory_limit,
                     "most memory of the host, and of the device, such as 4GiB; larger matrices go in parts");
    add_memory_limit(command, run.device_memory_limit, "most memory of the device, where that differs",
                     "--device-memory-limit");
}

/// The files that the command line names, to which no record may be appended.
std::vector<std::string> named_files(const RunOptions& run) {
    std::vector<std::optional<formats::Reference>> matrices = run.inputs;
    matrices.push_back(run.output);
    std::vector<std::string> files;
    for (const auto& matrix : matrices) {
        if (matrix && matrix->path != "-") files.push_back(matrix->path);
    }
    return files;
}

/// Turns texts into values and refuses what contradicts itself.
void finish_options(SharedOptions& shared, const Context& context) {
    RunOptions& run = shared.run;
    run.command_line = shell_line(context.command_line);
    run.inputs = parse_inputs(*run.operation, shared.inputs);
    if (shared.output) run.output = formats::parse_reference(*shared.output);
    run.verify = *verify_mode_from_name(shared.verify);
    if (shared.type) run.read.type = parse_type(*shared.type);
    run.output_format = shared.storage.format;
    run.force = shared.storage.force;
    run.wait_s = shared.storage.wait_s;
    run.write = write_options_of(shared.storage, shared.output.value_or(""), run.threads);
    run.dense = shared.storage.dense;
    run.sparse = shared.storage.sparse;
    run.read.threads = run.threads;
    run.read.memory_limit = run.memory_limit;
    require_one_on_stdout(shared.output.value_or(""), shared.log, context);
}

std::string rate(const RunRecord& record, Rate counts) {
    const double ms = *median(record.kernel_samples_ms);
    const bool computes = counts == Rate::arithmetic && record.kernel_flops > 0;
    std::string text = computes ? fmt::format("{:.1f} GFLOP/s", record.kernel_flops / ms / 1e6)
                                : fmt::format("{:.1f} GB/s", record.kernel_bytes / ms / 1e6);
    if (record.fraction_of_bound) {
        text += fmt::format(", {:.2f} of {}", *record.fraction_of_bound,
                            computes ? "the roofline bound" : "a device copy");
    }
    return text;
}

std::vector<RecordedMatrix> named_inputs(const RunOptions& run) {
    std::vector<RecordedMatrix> named;
    for (const auto& input : run.inputs)
        if (input) named.push_back(named_matrix(*input));
    return named;
}

/// The results of rows or columns, which count from 1.
Table table_of(const Matrix& results) {
    Table table({results.shape().cols == 1 ? "row" : "column", "result"});
    const std::size_t element = size_of(results.type());
    Matrix one(Shape{1, 1}, results.type());
    for (std::int64_t i = 0; i < results.shape().elements(); ++i) {
        std::memcpy(one.data(), results.data() + static_cast<std::size_t>(i) * element, element);
        table.add({std::to_string(i + 1), answer_text(*answer_of(one))});
    }
    return table;
}

/// What was done, in two or three lines.
void print_summary(const RunRecord& record, const RunOptions& run) {
    const std::string inner = record.k ? "x" + std::to_string(*record.k) : "";
    const std::string taken = taken_unnamed(named_inputs(run), record.inputs);
    spdlog::info("{} {} {}x{}{}{}, level '{}' on {}{}", record.op, record.type, record.m, record.n, inner,
                 taken.empty() ? "" : " of " + taken, record.level, record.device.name,
                 record.level_reason.empty() ? "" : " (" + record.level_reason + ")");
    warn_of_packing(record.inputs, run.read.unpack);
    if (run.dry_run) {
        spdlog::info("would move at least {} and do {:.4g} operations; only headers were read",
                     format_traffic(record.kernel_bytes), record.kernel_flops);
        return;
    }
    spdlog::info("{:.4g} ms, {}; verification: {}{}", *median(record.kernel_samples_ms),
                 rate(record, run.operation->rate), record.verification.verdict,
                 record.verification.mode == "none" ? "" : " (" + record.verification.mode + ")");
    if (record.output) spdlog::info("wrote {}", written_words(*record.output, taken));
}

}  // namespace

Type parse_type(const std::string& text) {
    if (const auto type = type_from_name(text)) return *type;
    std::string known;
    for (const Type type : all_types()) known += (known.empty() ? "" : ", ") + std::string(name_of(type));
    throw Error(ErrorCode::usage, "--type is '" + text + "'; expected one of " + known);
}

void add_reading_options(Command& command, formats::ReadOptions& read) {
    command.begin_group("Input");
    command.option("--from", &read.from, "format of what comes through a pipe (default: matrix-market)")
        .choices(format_names());
    command.option("--dataset", &read.dataset, "the dataset of HDF5 inputs that are named as FILE alone")
        .value("NAME")
        .check([](const std::string& name) {
            return name.empty() ? std::string("is empty; expected a name such as /A") : std::string();
        });
    command.flag("--as-column", &read.as_column, "take a one-dimensional dataset as a matrix of one column");
    command
        .option(
            "--layout",
            [&read](const std::string& text) {
                read.layout = text == "row" ? formats::Layout::row : formats::Layout::matlab;
            },
            "dimensions of an HDF5 dataset: row as stored, matlab reversed (default: as the file says)")
        .choices({"row", "matlab"});
    command
        .option(
            "--shape", [&read](const std::string& text) { read.shape = parse_shape(text, "--shape", 0); },
            "of a sparse matrix of HDF5 that says none; a shape that is stored must be the same")
        .value("ROWSxCOLS");
    command.flag("--unpack", &read.unpack,
                 "the values of packed numbers (scale_factor, add_offset, _FillValue), NaN if missing");
    command.flag("--allow-external", &read.allow_external,
                 "follow HDF5 external links, external storage and virtual datasets");
    if (command.find("--strict") == nullptr)  // to verify has one that means more
        command.flag("--strict", &read.strict,
                     "refuse Matrix Market files that deviate from the format (-v tells how)");
    read.tell = say;
}

void warn_of_packing(std::span<const RecordedMatrix> read, bool unpack) {
    std::string names;
    for (const RecordedMatrix& matrix : read) {
        const std::string name = formats::to_string({matrix.path, matrix.dataset});
        names += (names.empty() ? "" : ", ") + name;
        if (!matrix.packing.empty() && !matrix.unpacked)
            spdlog::warn(
                "{} is packed ({}): its numbers are used as they are stored; --unpack gives the values", name,
                matrix.packing);
    }
    if (unpack && std::ranges::none_of(read, &RecordedMatrix::unpacked))
        spdlog::warn(
            "--unpack has nothing to unpack: {} says none of scale_factor, add_offset, _FillValue, "
            "missing_value",
            names);
}

std::string taken_unnamed(std::span<const RecordedMatrix> named, std::span<const RecordedMatrix> found) {
    std::string names;
    for (std::size_t i = 0; i < std::min(named.size(), found.size()); ++i) {
        if (!named[i].dataset.empty() || found[i].dataset.empty()) continue;
        names += (names.empty() ? "" : ", ") + formats::to_string({found[i].path, found[i].dataset});
    }
    return names;
}

void add_shared_options(Command& command, SharedOptions& shared, Context& context) {
    add_output_options(command, shared);
    add_level_options(command, shared, context.registry());
    add_checking_options(command, shared);
    add_run_control(command, shared);
    add_reading_options(command, shared.run.read);
    suggest_types(
        command.option("-t,--type", &shared.type,
                       "convert the inputs first: i8 … i64, u8 … u64, f16, bf16, f32, f64, c64, c128"));
    add_style_options(command, context.style);
}

namespace {

/// While it lives, the record tells too of ranks that fall silent.
class HearingSilence {
  public:
    explicit HearingSilence(engines::OnSilence told) { engines::Ranks::hear_silence(std::move(told)); }
    HearingSilence(const HearingSilence&) = delete;
    HearingSilence& operator=(const HearingSilence&) = delete;
    ~HearingSilence() { engines::Ranks::hear_silence(say_of_silence); }
};

void run_and_tell(SharedOptions& shared, Context& context) {
    RunRecord record = start_record();
    RunLog log(shared.log, named_files(shared.run));
    Progress progress;
    std::mutex knowing;
    RunRecord known = record;  // for who must tell of a run that goes on, from another thread
    shared.run.log = &log;
    shared.run.progress = &progress;
    shared.run.publish = [&](const RunRecord& more) {
        const std::lock_guard lock(knowing);
        known = more;
    };
    std::optional<Table> answers;
    shared.run.hear_result = [&](const Matrix& result) { answers = table_of(result); };
    shared.run.before_naming = [&](const RunRecord& named) {
        if (context.before_naming) context.before_naming(to_json(named));
    };
    const auto tell = [&](RunRecord& ended, int exit_code, const std::string& error) {
        ended.exit_code = exit_code;
        ended.error = error;
        if (context.style.json) std::puts(json_line(to_json(ended)).c_str());
        log.append(ended);
    };
    LastWords last_words(wants_last_words(shared.log, context), [&](int signal_number) {
        const std::lock_guard lock(knowing);
        RunRecord cut = known;
        record_stages(progress.timeline, cut);
        tell(cut, exit_code_of_signal(signal_number), describe_signal(signal_number));
        std::fflush(stdout);
    });
    const HearingSilence hears([&](const Error& error) {
        forbid_naming();
        last_words.settle_failure([&] {
            const std::lock_guard lock(knowing);
            tell(known, static_cast<int>(error.code()), error.what());
        });
        say_of_silence(error);
    });
    try {
        const ProgressLine line(progress, shared.output ? "writing" : "verifying", context);
        context.exit_code = gpumat::run(shared.run, context.registry(), record, say);
    } catch (...) {
        const Error error = failure_in_flight();
        last_words.settle_failure([&] { tell(record, static_cast<int>(error.code()), error.what()); });
        throw;
    }
    print_summary(record, shared.run);
    const bool taken = shared.output == "-" || shared.log == "-" || context.style.json;
    if (!taken && record.answer) std::puts(answer_text(*record.answer).c_str());
    if (!taken && !record.answer && !shared.output && answers)
        std::fputs(answers->text({0, 1}).c_str(), stdout);
    last_words.settle([&] {
        tell(record, context.exit_code, context.exit_code == 0 ? "" : "verification found a difference");
    });
}

}  // namespace

void run_operation(SharedOptions& shared, Context& context) {
    if (shared.team) shared.run.threads = shared.team->threads();
    finish_options(shared, context);
    shared.run.team = shared.team.get();
    run_with(shared.run.team, context, {.source = engines::reading(shared.run.read)},
             [&] { run_and_tell(shared, context); });
}

}  // namespace gpumat::cli
