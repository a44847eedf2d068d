#include "lib/run.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "lib/atomic_output.hpp"
#include "lib/core/error.hpp"
#include "lib/device.hpp"
#include "lib/execute.hpp"
#include "lib/explain.hpp"
#include "lib/hash.hpp"
#include "lib/plan.hpp"
#include "lib/roofline.hpp"
#include "lib/stopwatch.hpp"

namespace gpumat {
namespace {

using formats::Header;

/// The word as a POSIX shell takes it back.
std::string quote_for_shell(const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

RecordedMatrix describe(const Header& header) {
    return {.path = header.source.path,
            .dataset = header.source.dataset,
            .format = header.format,
            .rows = header.shape.rows,
            .cols = header.shape.cols,
            .type = std::string(name_of(header.type)),
            .bytes = dense_bytes(header.shape, header.type, to_string(header.source)),
            .hash = ""};
}

void record_request(const RunOptions& options, RunRecord& record) {
    record.op = name_of(options.operation);
    record.level_requested = options.level;
    for (const std::string& word : options.command_line) {
        record.command_line += (record.command_line.empty() ? "" : " ") + quote_for_shell(word);
    }
}

void record_plan(const Plan& plan, RunRecord& record) {
    const Problem& problem = plan.problem;
    record.device = recorded_device(plan.device);
    record.level_reason = plan.chosen_because;
    record.type = name_of(problem.type);
    record.m = problem.m;
    record.n = problem.n;
    if (problem.operation == Operation::multiply) {
        record.k = problem.k;
        record.alpha = problem.alpha;
        record.beta = problem.beta;
    }
    for (const PlannedInput& input : plan.inputs) record.inputs.push_back(describe(input.header()));
    record.kernel_bytes = problem.bytes();
    record.kernel_flops = problem.flops();
    for (const auto& [name, value] : problem.parameters)
        record.parameters.emplace_back(name, std::to_string(value));
}

/// A dataset named in an HDF5 file is added to what the file holds; everything else makes a new file.
OutputMode output_mode(const RunOptions& options, const Plan& plan) {
    const bool names_dataset = !formats::parse_reference(*options.output).dataset.empty();
    if (names_dataset && formats::exists_as(plan.output.path, *plan.output_format)) return OutputMode::extend;
    return options.force ? OutputMode::replace : OutputMode::create;
}

bool writes_file(const Plan& plan) {
    return plan.output_format != nullptr && plan.output.path != "-";
}

std::vector<std::string> input_files(const Plan& plan) {
    std::vector<std::string> files;
    for (const PlannedInput& input : plan.inputs) {
        const std::string& path = input.header().source.path;
        files.push_back(path == "-" ? "/dev/stdin" : path);  // may be redirected from the output
        std::ranges::copy(input.reader->other_files(), std::back_inserter(files));
    }
    return files;
}

/// What is written into the file at `path`: the output, or its temporary file. `extends`: it holds what the
/// output held.
formats::WriteTarget write_target(const RunOptions& options, const Plan& plan, const std::string& path,
                                  bool extends) {
    return {.path = path,
            .shown = plan.output.path,
            .dataset = plan.output.dataset,
            .append = extends,
            .replace = options.force};
}

/// What the output's file holds already, and how it is to be stored, does not stand in the way of the result.
void require_writable(const RunOptions& options, const Plan& plan, const std::string& path, bool extends) {
    if (plan.output_format->require_writable == nullptr) return;
    plan.output_format->require_writable(write_target(options, plan, path, extends), plan.result,
                                         plan.problem.type, options.write);
}

/// The output's temporary file, made before anything is computed, so that an output that cannot be written
/// costs no time. Empty where nothing is written, or where it goes to standard output.
std::optional<AtomicOutput> open_output(const RunOptions& options, const Plan& plan) {
    if (!writes_file(plan)) return std::nullopt;
    return std::optional<AtomicOutput>(std::in_place, plan.output.path, output_mode(options, plan),
                                       input_files(plan));
}

Matrix read_input(Plan& plan, std::size_t index, const RunOptions& options, RunRecord& record) {
    formats::Reader& reader = *plan.inputs[index].reader;
    const Stopwatch watch;
    Matrix matrix = formats::read_whole(reader, {.memory_limit = options.memory_limit});
    spdlog::debug("read {} = {} ({} {}, {}) in {:.1f} ms", plan.inputs[index].role,
                  to_string(reader.header().source), to_string(matrix.shape()), name_of(matrix.type()),
                  reader.header().storage, watch.elapsed_ms());
    record.inputs[index].hash = content_hash(matrix.view(), options.threads);
    return matrix;
}

Inputs read_inputs(Plan& plan, const RunOptions& options, RunRecord& record) {
    const Stopwatch watch;
    Inputs inputs;
    inputs.a = read_input(plan, 0, options, record);
    if (plan.inputs.size() > 1) inputs.b = read_input(plan, 1, options, record);
    if (plan.inputs.size() > 2) inputs.d = read_input(plan, 2, options, record);
    record.stages_ms.read = watch.elapsed_ms();
    return inputs;
}

Matrix copy_of(const Matrix& matrix) {
    Matrix copy(matrix.shape(), matrix.type(), "the copy of the input");
    std::copy_n(matrix.data(), matrix.bytes(), copy.data());
    return copy;
}

void tell_facts(const std::vector<std::pair<std::string, std::string>>& facts,
                spdlog::level::level_enum severity) {
    for (const auto& [name, value] : facts) spdlog::log(severity, "{}: {}", name, value);
}

/// The rate over the bound of the device: of a GPU's copy for a transpose, of its roofline for a multiply. A
/// CPU's bound would have to be measured beside every run; bench and --dry-run do.
void record_bound(const Plan& plan, const Execution& execution, const Registry& registry, RunRecord& record) {
    const double ms = *median(execution.samples_ms);
    if (execution.copy_bandwidth_gbps > 0) {
        record.bound = "copy bandwidth";
        record.bound_ms = plan.problem.bytes() / execution.copy_bandwidth_gbps / 1e6;
    } else if (plan.gpu && plan.problem.operation == Operation::multiply) {
        const Roofline bound =
            roofline(*plan.level, plan.problem, ceilings_of(plan.problem.type, plan.device, registry, {}));
        if (!bound.arithmetic_ms || !bound.bound_ms()) return;
        record.bound = "roofline";
        record.bound_ms = bound.bound_ms();
    }
    if (record.bound_ms && ms > 0) record.fraction_of_bound = *record.bound_ms / ms;
}

void record_execution(const Plan& plan, const Execution& execution, RunRecord& record) {
    record.level = execution.level;
    record.parameters = execution.details;
    record.kernel_samples_ms = execution.samples_ms;
    record.stages_ms.kernel = execution.kernel_ms;
    if (plan.gpu) {
        record.stages_ms.host_to_device = execution.host_to_device_ms;
        record.stages_ms.device_to_host = execution.device_to_host_ms;
        record.peak_device_bytes = plan.device_bytes + execution.workspace_bytes;
    }
    tell_facts(record.parameters, spdlog::level::debug);
}

/// In place, where the input is gone but for its hash: the result's transpose must have that hash.
Verification verify_by_hash(const Matrix& result, const std::string& input_hash, const RunOptions& options) {
    const std::string hash = transposed_content_hash(result.view(), options.threads);
    Verification verification;
    verification.mode = "hash";
    verification.verdict = hash == input_hash ? "passed" : "failed";
    verification.note = verification.failed()
                            ? "the result's transpose has the hash " + hash + ", the input had " + input_hash
                            : "verified by the hash of the input, which is overwritten";
    return verification;
}

Verification verify(const Plan& plan, const Inputs& inputs, const Matrix& result, const RunOptions& options,
                    const std::string& input_hash) {
    const bool overwritten = plan.problem.in_place && !plan.gpu && !plan.keeps_input;
    if (overwritten && options.verify == VerifyMode::none) return {};
    if (overwritten) return verify_by_hash(result, input_hash, options);
    const VerifyOptions how = {options.verify, options.tolerance, options.threads, options.seed};
    if (plan.problem.operation == Operation::transpose)
        return verify_transpose(inputs.a.view(), result.view(), how);
    // A verification that trusted the memory a level may have written to would be none; const views suffice.
    return verify_multiply(
        plan.problem,
        {inputs.a.data(), inputs.b.data(), inputs.d.data(), const_cast<std::byte*>(result.data())}, how);
}

void report_failure(const Verification& verification, const RunRecord& record) {
    if (verification.mode == "hash") {
        spdlog::error("level '{}' failed verification (hash)", record.level);
        return;
    }
    std::string where;
    if (verification.worst) {
        const WorstElement& worst = *verification.worst;
        where = "; the worst is row " + std::to_string(worst.row + 1) + ", column " +
                std::to_string(worst.col + 1) + ": computed " + worst.computed + ", expected " +
                worst.expected + ", error / bound = " + fmt::format("{:.3g}", verification.worst_ratio);
    }
    spdlog::error("level '{}' failed verification ({}): {} {}{}", record.level, verification.mode,
                  verification.mismatches, verification.mode == "full" ? "elements differ" : "rows differ",
                  where);
}

void verify_result(const Plan& plan, const Inputs& inputs, const Matrix& result, const RunOptions& options,
                   RunRecord& record) {
    const Stopwatch watch;
    record.verification = verify(plan, inputs, result, options, record.inputs.front().hash);
    if (record.verification.mode != "none") record.stages_ms.verify = watch.elapsed_ms();
    if (!record.verification.note.empty()) spdlog::info("{}", record.verification.note);
    if (record.verification.wrapped > 0) {
        spdlog::warn("{} results do not fit in {} and are given modulo 2^{}", record.verification.wrapped,
                     record.type, 8 * size_of(plan.problem.type));
    }
    if (record.verification.failed()) report_failure(record.verification, record);
}

/// Where an HDF5 result comes from, as attributes. No time: the same run gives the same file.
std::vector<std::pair<std::string, std::string>> provenance(const RunRecord& record) {
    std::vector<std::pair<std::string, std::string>> attributes = {
        {"gpumat_version", record.version}, {"gpumat_operation", record.op}, {"gpumat_level", record.level}};
    constexpr std::string_view kRoles = "abd";
    for (std::size_t i = 0; i < record.inputs.size(); ++i) {
        const RecordedMatrix& input = record.inputs[i];
        attributes.emplace_back(std::string("gpumat_input_") + kRoles[i],
                                formats::to_string({input.path, input.dataset}) + " " + input.hash);
    }
    return attributes;
}

void write_result(const Plan& plan, const Matrix& result, const RunOptions& options,
                  std::optional<AtomicOutput>& atomic, RunRecord& record) {
    const Stopwatch watch;
    // Beside the writing, which is one thread's work: the system lets no other write into the file.
    const auto hashing = options.threads > 1 ? std::launch::async : std::launch::deferred;
    std::future<std::string> hash =
        std::async(hashing, [&] { return content_hash(result.view(), options.threads - 1); });
    formats::WriteOptions how = options.write;
    how.threads = options.threads;
    if (plan.output_format->has_datasets) how.attributes = provenance(record);
    if (plan.problem.operation == Operation::transpose) how.attributes_of = plan.inputs.front().reader.get();
    const formats::WriteTarget target =
        write_target(options, plan, atomic ? atomic->path() : plan.output.path, atomic && atomic->extends());
    {
        const auto writer = plan.output_format->create(target, result.shape(), result.type(), how);
        for (const std::string& attribute : writer->left_out())
            spdlog::warn("the result does not keep the attribute {}", attribute);
        writer->write(Block::whole(result.shape()), result.view());
        writer->finish();
    }
    if (atomic) atomic->commit();
    record.stages_ms.write = watch.elapsed_ms();
    record.output = RecordedMatrix{.path = plan.output.path,
                                   .dataset = plan.output.dataset,
                                   .format = std::string(plan.output_format->name),
                                   .rows = result.shape().rows,
                                   .cols = result.shape().cols,
                                   .type = std::string(name_of(result.type())),
                                   .bytes = result.bytes(),
                                   .hash = hash.get()};
}

void explain_plan(const Plan& plan, spdlog::level::level_enum severity) {
    spdlog::log(severity, "level '{}' (number {}) on the {}: {}", plan.level->name, plan.level->number,
                name_of(plan.device.kind), plan.level->summary);
    if (!plan.chosen_because.empty()) spdlog::debug("chosen: {}", plan.chosen_because);
    spdlog::log(severity, "memory: {} on the host, {} on the device", format_bytes(plan.host_bytes),
                format_bytes(plan.device_bytes));
}

/// A dry run: refuses an output that could not be written, and tells the plan, how the level would run, and
/// the least time that it could take.
void foretell(const RunOptions& options, const Plan& plan, const Registry& registry, RunRecord& record) {
    if (writes_file(plan)) {
        const OutputMode mode = output_mode(options, plan);
        require_output_possible(plan.output.path, mode, input_files(plan));
        require_writable(options, plan, plan.output.path, mode == OutputMode::extend);
    }
    explain_plan(plan, spdlog::level::info);
    record.dry_run = true;
    record.level = plan.level->name;
    record.parameters = launch_facts(*plan.level, plan.problem, plan.device);
    tell_facts(record.parameters, spdlog::level::info);
    const Ceilings ceilings = ceilings_of(plan.problem.type, plan.device, registry, options.memory_limit);
    const Roofline bound = roofline(*plan.level, plan.problem, ceilings);
    record.bound_ms = bound.bound_ms();
    if (record.bound_ms) record.bound = "roofline";
    spdlog::info("bound: {}; {}", to_string(bound), ceilings.basis);
}

}  // namespace

int run(const RunOptions& options, const Registry& registry, RunRecord& record) {
    const Stopwatch watch;
    record_request(options, record);
    Plan plan = make_plan(options, registry);
    record_plan(plan, record);
    if (options.dry_run) {
        foretell(options, plan, registry, record);
        return 0;
    }
    explain_plan(plan, spdlog::level::debug);

    std::optional<AtomicOutput> atomic = open_output(options, plan);
    if (atomic) require_writable(options, plan, atomic->path(), atomic->extends());
    Inputs inputs = read_inputs(plan, options, record);
    Matrix kept = plan.keeps_input ? copy_of(inputs.a) : Matrix();
    const Execution execution = execute(plan, inputs, options.warmup, options.repeat);
    if (plan.keeps_input) inputs.a = std::move(kept);
    record_execution(plan, execution, record);
    record_bound(plan, execution, registry, record);
    verify_result(plan, inputs, execution.result, options, record);
    const bool failed = record.verification.failed();
    if (plan.output_format != nullptr && (!failed || options.keep_failed)) {
        write_result(plan, execution.result, options, atomic, record);
    }
    record.stages_ms.total = watch.elapsed_ms();
    record.peak_host_bytes = peak_memory_bytes();
    return failed ? static_cast<int>(ErrorCode::differs) : 0;
}

}  // namespace gpumat
