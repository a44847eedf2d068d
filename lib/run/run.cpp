#include "lib/run/run.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "lib/choose/device.hpp"
#include "lib/choose/explain.hpp"
#include "lib/choose/roofline.hpp"
#include "lib/engines/team.hpp"
#include "lib/output/destination.hpp"
#include "lib/record/progress.hpp"
#include "lib/record/run_log.hpp"
#include "lib/record/version.hpp"
#include "lib/run/conditions.hpp"
#include "lib/run/flow.hpp"
#include "lib/run/plan.hpp"
#include "lib/run/plan/sparse.hpp"
#include "lib/run/ranks/flow.hpp"
#include "lib/run/ranks/plan.hpp"
#include "lib/run/sparse/flow.hpp"
#include "lib/run/sparse/in_parts.hpp"
#include "lib/run/sparse/ways.hpp"

namespace gpumat {
namespace {

void record_request(const RunOptions& options, RunRecord& record) {
    record.op = name_of(*options.operation);
    record.level_requested = options.level;
    record.command_line = options.command_line;
    record.repeat = options.repeat;
    record.warmup = options.warmup;
    record.seed = options.seed;
    for (const auto& input : options.inputs)
        if (input) record.inputs.push_back(named_matrix(*input));
}

RecordedMatrix recorded_input(const PlannedInput& input, const Problem& problem) {
    if (problem.structure.inputs.at(input.role) == Storage::dense) return recorded_matrix(input.header());
    return recorded_sparse(input.header(), problem.entries.at(input.role));
}

void record_plan(const Plan& plan, RunRecord& record) {
    const Problem& problem = plan.problem;
    const Operation& operation = *problem.operation;
    record.device = recorded_device(plan.lane().device);
    record.level_reason = plan.chosen_because;
    record.type = name_of(problem.type);
    record.m = problem.m;
    record.n = problem.n;
    if (operation.extents == 3) record.k = problem.k;
    if (const Scalar* alpha = operation.factor(problem, "alpha")) record.alpha = *alpha;
    if (const Scalar* beta = operation.factor(problem, "beta")) record.beta = *beta;
    record.inputs.clear();
    for (const PlannedInput& input : plan.inputs) record.inputs.push_back(recorded_input(input, problem));
    record.kernel_bytes = problem.bytes();
    record.kernel_flops = problem.flops();
    for (const auto& [name, value] : problem.parameters) record.parameters.emplace_back(name, value);
    record.settings = problem.choices;
    for (const Setting& setting : operation.settings)
        if (setting.flag != nullptr && problem.*setting.flag) record.settings.emplace(setting.name, "yes");
}

/// What is held back from a pipe may take the memory that nothing else is planned to take.
void open_output(const RunOptions& options, Plan& plan, OutputPurpose purpose, const Tell& say) {
    if (!plan.output) return;
    formats::WriteOptions how = plan.write;
    if (formats::is_stream(plan.output->reference().path)) {
        const std::uint64_t all = options.memory_limit ? *options.memory_limit : available_memory_bytes() / 2;
        how.memory_limit = all - std::min(all, plan.host_bytes);
    }
    plan.output->open(files_of(plan.inputs), plan.result, plan.result_type, how, purpose, say);
    plan.host_bytes += plan.output->held_bytes();
}

/// What the limit leaves for chunks that are read and written, beside all else that the plan counts: the same
/// for both sides.
std::optional<std::uint64_t> left_for_work(const RunOptions& options, const Plan& plan) {
    if (!options.memory_limit) return {};
    return (*options.memory_limit - std::min(*options.memory_limit, plan.host_bytes)) / 2;
}

void share_spare_memory(const RunOptions& options, Plan& plan) {
    const auto left = left_for_work(options, plan);
    if (!left) return;
    for (const PlannedInput& input : plan.inputs) input.reader->set_spare(*left);
}

void tell_facts(const std::vector<std::pair<std::string, std::string>>& facts, const Tell& say,
                Severity severity) {
    for (const auto& [name, value] : facts) tell(say, severity, name + ": " + value);
}

/// The rate over the bound of the device: of a GPU's copy where only bytes are moved, else of its roofline. A
/// CPU's bound would have to be measured beside every run; bench and --dry-run do.
void record_bound(const Plan& plan, const FlowResult& done, RunRecord& record) {
    const double ms = *median(done.samples_ms);
    if (done.copy_bandwidth_gbps > 0) {
        record.bound = "copy bandwidth";
        record.bound_ms = plan.problem.bytes() / done.copy_bandwidth_gbps / 1e6;
    } else if (plan.lane().gpu && plan.problem.operation->rate == Rate::arithmetic) {
        const Roofline bound =
            roofline(*plan.level, plan.problem, ceilings_of(plan.problem, plan.lane().device, {}));
        if (!bound.arithmetic_ms || !bound.bound_ms()) return;
        record.bound = "roofline";
        record.bound_ms = bound.bound_ms();
    }
    if (record.bound_ms && ms > 0) record.fraction_of_bound = *record.bound_ms / ms;
}

void record_flow(const Plan& plan, const FlowResult& done, RunRecord& record) {
    record.level = done.level;
    record.parameters = done.details;
    record.kernel_samples_ms = done.samples_ms;
    if (plan.parts) record.parts = plan.parts->count();
    if (plan.lane().gpu) record.peak_device_bytes = plan.lane().device_bytes + done.workspace_bytes;
    for (std::size_t i = 0; i < done.input_hashes.size(); ++i) record.inputs[i].hash = done.input_hashes[i];
    record.verification = done.verification;
}

void tell_verification(const Plan& plan, const RunRecord& record, const Tell& say) {
    const Verification& found = record.verification;
    if (!found.note.empty() && !found.failed()) tell(say, Severity::info, found.note);
    if (found.wrapped > 0) {
        tell(say, Severity::warning,
             fmt::format("{} not fit in {} and {} given modulo 2^{}",
                         found.wrapped == 1 ? "1 result does" : std::to_string(found.wrapped) + " results do",
                         name_of(plan.result_type), found.wrapped == 1 ? "is" : "are",
                         8 * size_of(plan.result_type)));
    } else if (const auto may_wrap = plan.problem.operation->check->may_wrap;
               found.mode == "none" && may_wrap != nullptr && may_wrap(plan.problem)) {
        tell(say, Severity::warning,
             fmt::format("results that do not fit in {} are given modulo 2^{}, and nothing looks for them "
                         "without --verify",
                         name_of(plan.result_type), 8 * size_of(plan.result_type)));
    }
    if (found.failed()) {
        tell(say, Severity::error,
             fmt::format("level '{}' failed verification ({}): {}", record.level, found.mode,
                         describe_failure(found, plan.result)));
    }
}

/// When the stages worked until now, and the memory that they took.
void record_effort(const Timeline& timeline, RunRecord& record) {
    record_stages(timeline, record);
    record.peak_host_bytes = peak_memory_bytes();
}

void tell_timeline(const RunRecord& record, const Tell& say) {
    for (const std::string& line :
         draw_timeline(record.stages, *record.stages_ms.rest, *record.stages_ms.total))
        tell(say, Severity::detail, line);
}

/// Where an HDF5 result comes from, as attributes. No time: the same run gives the same file.
std::vector<std::pair<std::string, std::string>> provenance(const Plan& plan, const FlowResult& done) {
    std::vector<std::pair<std::string, std::string>> attributes = {
        {"gpumat_version", std::string(version())},
        {"gpumat_operation", std::string(name_of(*plan.problem.operation))},
        {"gpumat_level", done.level}};
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
        std::string role(plan.inputs[i].name);
        std::ranges::transform(role, role.begin(), [](unsigned char c) { return std::tolower(c); });
        attributes.emplace_back("gpumat_input_" + role,
                                to_string(plan.inputs[i].header().source) + " " + done.input_hashes[i]);
    }
    return attributes;
}

formats::WriteOptions how_to_write(const RunOptions& options, const Plan& plan) {
    formats::WriteOptions how = plan.write;
    how.memory_limit = left_for_work(options, plan);
    if (how.memory_limit) *how.memory_limit += plan.working_bytes;
    if (plan.problem.operation->keeps_attributes) how.attributes_of = plan.inputs.front().reader.get();
    return how;
}

std::unique_ptr<formats::Writer> open_writer(const RunOptions& options, const Plan& plan, const Tell& say) {
    const formats::WriteOptions how = how_to_write(options, plan);
    auto writer = plan.output->create(plan.result, plan.result_type, how);
    for (const std::string& attribute : writer->left_out())
        tell(say, Severity::warning, "the result does not keep the attribute " + attribute);
    return writer;
}

Outlet outlet_of(const RunOptions& options, const Plan& plan, const Tell& say) {
    Outlet outlet;
    if (!plan.output) return outlet;
    const formats::Format& format = plan.output->format();
    outlet.open = [&] { return open_writer(options, plan, say); };
    outlet.open_sparse = [&](const FlowResult& done, std::int64_t entries) {
        formats::WriteOptions how = how_to_write(options, plan);
        if (format.has_datasets) how.attributes = provenance(plan, done);
        how.texts = done.texts.get();
        return plan.output->create_sparse(plan.result, plan.result_type, entries, how);
    };
    outlet.complete = [&](formats::Writer& writer, const FlowResult& done) {
        if (format.has_datasets) writer.annotate(provenance(plan, done));
        writer.finish();
    };
    outlet.order = format.order;
    if (format.writing_grain != nullptr)
        outlet.chunk_rows = format.writing_grain(plan.result, plan.result_type, plan.write).rows;
    outlet.has_child = plan.output->extends();
    outlet.hidden = plan.output->hidden();
    return outlet;
}

/// Gives the output its name.
void commit_output(const RunOptions& options, Plan& plan, const FlowResult& done, RunRecord& record) {
    RunRecord named = record;
    named.output =
        RecordedMatrix{.path = plan.output->reference().path,
                       .dataset = plan.output->reference().dataset,
                       .format = std::string(plan.output->format().name),
                       .rows = plan.result.rows,
                       .cols = plan.result.cols,
                       .type = std::string(name_of(plan.result_type)),
                       .bytes = plan.result_is_sparse()
                                    ? csr_bytes(plan.result, plan.result_type, plan.problem.result_entries)
                                    : dense_bytes(plan.result, plan.result_type, "the result"),
                       .hash = done.output_hash,
                       .file_bytes = plan.output->file_bytes()};
    if (plan.result_is_sparse()) named.output->entries = plan.problem.result_entries;
    if (done.texts) named.output->values = "text";
    named.exit_code = record.verification.failed() ? static_cast<int>(ErrorCode::differs) : 0;
    if (options.before_naming) options.before_naming(named);
    plan.output->commit();
    record.output = std::move(named.output);
}

void explain_plan(const RunOptions& options, const Plan& plan, const Tell& say, Severity severity) {
    if (options.team != nullptr) return tell_facts(facts_of_ranks(options, plan), say, severity);
    tell(say, severity,
         fmt::format("level '{}' on the {}: {}", plan.level->name, name_of(plan.lane().device.kind),
                     plan.level->summary));
    if (!plan.chosen_because.empty()) tell(say, Severity::detail, "chosen: " + plan.chosen_because);
    tell(say, severity,
         fmt::format("memory: {} on the host, {} on the device", format_bytes(plan.host_bytes),
                     format_bytes(plan.lane().device_bytes)));
    if (plan.as_text) tell(say, severity, "values: as text, where none has to be added to another");
    if (plan.sparse_room) tell(say, severity, sparse::describe_parts(plan));
    if (plan.is_sparse()) return;
    if (const std::int64_t parts = plan.parts->count(); parts > 1) {
        const ProblemPart first = plan.parts->at(0);
        tell(
            say, severity,
            fmt::format("in {} parts, which {} {} of the result at a time", parts,
                        first.shares_result() ? "are combined to" : "give", to_string(first.result.shape())));
    }
}

/// A dry run: refuses an output that could not be written, and tells the plan, how the level would run, and
/// the least time that it could take.
void foretell(const RunOptions& options, Plan& plan, const Tell& say, RunRecord& record) {
    open_output(options, plan, OutputPurpose::rehearse, say);
    explain_plan(options, plan, say, Severity::info);
    record.dry_run = true;
    if (options.team != nullptr) {
        record.level = options.team->served().routine;
        record.parameters = facts_of_ranks(options, plan);
        return;
    }
    record.level = plan.level->name;
    record.parameters = launch_facts(*plan.level, plan.problem, plan.lane().device);
    tell_facts(record.parameters, say, Severity::info);
    const Ceilings ceilings = ceilings_of(plan.problem, plan.lane().device, options.memory_limit);
    const Roofline bound = roofline(*plan.level, plan.problem, ceilings);
    record.bound_ms = bound.bound_ms();
    if (record.bound_ms) record.bound = "roofline";
    tell(say, Severity::info, fmt::format("bound: {}; {}", to_string(bound), ceilings.basis));
}

/// As a whole, or in parts where that was planned or where a result is counted that does not fit.
FlowResult run_sparse(const RunOptions& options, Plan& plan, const Outlet& outlet, ConditionsWatch* watch,
                      Progress& progress, SparseCounts& counts, const Tell& say) {
    if (!plan.sparse_room) {
        try {
            return sparse_flow(plan, options, outlet, watch, progress, counts);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::memory || !plan_counted_in_parts(options, plan)) throw;
            tell(say, Severity::detail, fmt::format("{}; {}", error.what(), sparse::describe_parts(plan)));
        }
        counts = {};
    }
    return sparse_flow_in_parts(plan, options, outlet, progress, counts);
}

/// The same for sparse matrices, whose entries are known once they are read.
FlowResult carry_out_sparse(const RunOptions& options, Plan& plan, const Outlet& outlet,
                            ConditionsWatch* watch, Progress& progress, RunRecord& record, const Tell& say) {
    SparseCounts counts;
    FlowResult done = run_sparse(options, plan, outlet, watch, progress, counts, say);
    record.parts = counts.parts;
    if (counts.parts > 1)
        tell(say, Severity::detail,
             fmt::format("in {} parts{}", counts.parts,
                         sparse::goes_through_disk(plan) ? ", through the disk" : ""));
    plan.problem.entries = counts.entries;
    plan.problem.result_entries = counts.result_entries;
    record.kernel_bytes = plan.problem.bytes();
    record.kernel_flops = counts.flops;
    for (std::size_t i = 0; i < plan.inputs.size(); ++i)
        record.inputs[i] = recorded_input(plan.inputs[i], plan.problem);
    std::int64_t entries = 0;
    for (const std::int64_t some : counts.entries) entries += some;
    tell(say, Severity::detail,
         fmt::format(
             "sparse: {} entries{}{}{}", entries,
             counts.duplicates > 0 ? fmt::format(", after {} were added to others", counts.duplicates) : "",
             counts.zeros > 0 ? fmt::format(", {} of them zero", counts.zeros) : "",
             plan.result_is_sparse() ? fmt::format("; the result has {}", counts.result_entries) : ""));
    if (plan.as_text)
        tell(say, Severity::detail,
             done.texts
                 ? "values: the text of the input, as it is"
                 : "values: in the fewest digits, as entries were added or there was no room for texts");
    return done;
}

/// Reads, computes, verifies and writes what was planned.
void carry_out(const RunOptions& options, Plan& plan, Progress& progress, RunRecord& record,
               const Tell& say) {
    Timeline& timeline = progress.timeline;
    const bool shares = options.team != nullptr;
    timeline.open([&] {
        const bool far = shares && engines::Team::on_several_hosts();
        open_output(options, plan, far ? OutputPurpose::share : OutputPurpose::write, say);
    });
    share_spare_memory(options, plan);
    std::optional<ConditionsWatch> watch;
    if (plan.lane().gpu) watch.emplace(plan.lane().gpu->info().uuid, record.before, record.after);
    const Outlet outlet = outlet_of(options, plan, say);
    ConditionsWatch* const watching = watch ? &*watch : nullptr;
    FlowResult done = shares ? flow_on_ranks(plan, options, outlet, progress, record, say)
                      : plan.is_sparse()
                          ? carry_out_sparse(options, plan, outlet, watching, progress, record, say)
                          : flow(plan, options, outlet, watching, progress, say);
    record_flow(plan, done, record);
    record_bound(plan, done, record);
    tell_facts(record.parameters, say, Severity::detail);
    tell_verification(plan, record, say);
    if (!record.verification.failed() && options.operation->answers) {
        record.answer = answer_of(done.few_elements);
        if (options.hear_result && done.few_elements.bytes() > 0) options.hear_result(done.few_elements);
    }
    if (done.written) timeline.write([&] { commit_output(options, plan, done, record); });
    const std::string unwatched = watch ? watch->finish() : "";
    if (!unwatched.empty()) tell(say, Severity::detail, "clocks and power are not recorded: " + unwatched);
}

void plan_and_carry_out(const RunOptions& options, const Registry& registry, Progress& progress,
                        RunRecord& record, const Tell& say) {
    const auto publish = [&] {
        if (options.publish) options.publish(record);
    };
    record_request(options, record);
    publish();
    Plan plan = make_plan(options, registry, progress.timeline, say);
    record_plan(plan, record);
    publish();
    if (options.log != nullptr) options.log->require_apart(files_of(plan.inputs));
    if (options.dry_run) return foretell(options, plan, say, record);
    explain_plan(options, plan, say, Severity::detail);
    carry_out(options, plan, progress, record, say);
}

}  // namespace

int run(const RunOptions& options, const Registry& registry, RunRecord& record, const Tell& say) {
    Progress own;
    Progress& progress = options.progress != nullptr ? *options.progress : own;
    try {
        plan_and_carry_out(options, registry, progress, record, say);
    } catch (...) {
        record_effort(progress.timeline, record);
        throw;
    }
    record_effort(progress.timeline, record);
    tell_timeline(record, say);
    return record.verification.failed() ? static_cast<int>(ErrorCode::differs) : 0;
}

}  // namespace gpumat
