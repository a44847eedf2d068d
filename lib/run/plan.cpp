#include "lib/run/plan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/text/suggestion.hpp"
#include "kernels/check/check.hpp"
#include "kernels/device/nvml.hpp"
#include "lib/choose/auto_level.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/run/executor.hpp"

namespace gpumat {
namespace {

using formats::Header;

std::string level_names(const Registry& registry, const Operation& operation, DeviceKind device) {
    std::string names = "auto";
    for (const Level* level : registry.levels(operation, device)) {
        names += ", ";
        names += level->name;
    }
    return names;
}

[[noreturn]] void refuse_level(const Registry& registry, const Operation& operation,
                               const std::string& level) {
    std::vector<std::string> known = {"auto"};
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
        for (const Level* one : registry.levels(operation, device)) known.emplace_back(one->name);
    }
    throw Error(ErrorCode::usage, "there is no " + std::string(name_of(operation)) + " level '" + level +
                                      "'; on a gpu: " + level_names(registry, operation, DeviceKind::gpu) +
                                      "; on a cpu: " + level_names(registry, operation, DeviceKind::cpu) +
                                      suggestion(level, known));
}

std::string describe(const PlannedInput& input) {
    const Header& header = input.header();
    return std::string(input.name) + " = " + to_string(header.source) + " is " + to_string(header.shape);
}

/// Whatever their format, the inputs of one operation have one type.
void require_one_type(const std::vector<PlannedInput>& inputs) {
    for (const PlannedInput& input : inputs) {
        const Header& first = inputs.front().header();
        if (input.header().type == first.type) continue;
        throw Error(ErrorCode::input, std::string(inputs.front().name) + " = " + to_string(first.source) +
                                          " holds " + std::string(name_of(first.type)) + " and " +
                                          std::string(input.name) + " = " + to_string(input.header().source) +
                                          " holds " + std::string(name_of(input.header().type)) +
                                          "; name the type to work in with --type");
    }
}

/// The level that was named, or the choice of `auto` for a part; the plan's problem takes the chosen
/// parameters.
void choose_level(const RunOptions& options, const Registry& registry, const Tell& say, Plan& plan) {
    const Problem problem = plan.parts->at(0).problem;
    if (options.level == "auto") {
        Choice choice = choose_auto(problem, plan.device, registry, say);
        plan.level = choice.level;
        plan.problem.parameters = std::move(choice.problem.parameters);
        plan.parts->set_parameters(plan.problem.parameters);
        plan.chosen_because += (plan.chosen_because.empty() ? "" : "; ") + choice.reason;
        return;
    }
    plan.level = find_level(registry, *options.operation, plan.device.kind, options.level);
    const Reasons reasons = unsupported_reasons(*plan.level, problem, plan.device);
    if (reasons.empty()) return;
    throw Error(ErrorCode::unsupported,
                "level '" + std::string(plan.level->name) + "' cannot serve this problem: " + join(reasons));
}

/// Adds without wrapping: what does not fit in 64 bits is as good as the largest number that does.
void add_bytes(std::uint64_t& sum, std::uint64_t bytes) {
    sum = bytes > ~sum ? ~std::uint64_t{0} : sum + bytes;
}

/// What reading and writing take beside blocks of the matrices.
std::uint64_t working_bytes(const RunOptions& options, const Plan& plan) {
    std::uint64_t reading = 0;
    for (const PlannedInput& input : plan.inputs) reading = std::max(reading, input.reader->working_bytes());
    if (!plan.output || plan.output->format().writing_bytes == nullptr) return reading;
    add_bytes(reading, plan.output->format().writing_bytes(plan.result, plan.result_type, options.write));
    return reading;
}

/// "this multiply (A = A.h5:/A is 4x5, … all f32)".
std::string describe_work(const Plan& plan) {
    std::string what = "this " + std::string(name_of(*plan.problem.operation)) + " (";
    for (const PlannedInput& input : plan.inputs) what += describe(input) + ", ";
    what += "the result " + to_string(plan.result);
    return what + (plan.result_type == plan.problem.type ? ", all " : " ") +
           std::string(name_of(plan.result_type)) + ")";
}

/// What other processes leave of the device's memory, without waiting for the device.
std::uint64_t memory_left_by_others(const Gpu& gpu) {
    constexpr std::uint64_t kContextBytes = std::uint64_t{1} << 30;
    std::string why_not;
    const auto monitor = GpuMonitor::open(gpu.info().uuid, why_not);
    const auto free = monitor ? monitor->free_memory() : std::nullopt;
    if (!free) return gpu.info().memory_bytes;
    return *free - std::min(*free, kContextBytes);
}

/// The device's memory that may be taken: what the user allows, else what is free. A device is asked, and
/// waited for, only where the problem may need more than half of it.
std::uint64_t device_room(const RunOptions& options, const Plan& plan, std::uint64_t wanted) {
    if (options.device_memory_limit) return *options.device_memory_limit;
    if (options.memory_limit) return *options.memory_limit;
    const std::uint64_t all = plan.gpu->info().memory_bytes;
    if (wanted > all / 2) return plan.gpu->free_memory();
    // Where the CPU may take the run, it is worth knowing before that others fill the device.
    return options.device == "auto" ? std::min(all / 2, memory_left_by_others(*plan.gpu)) : all / 2;
}

std::vector<std::optional<StoredAs>> stored_inputs(const RunOptions& options, const Plan& plan) {
    std::vector<std::optional<StoredAs>> stored(options.inputs.size());
    for (const PlannedInput& input : plan.inputs) {
        const Header& header = input.header();
        stored[input.role] = StoredAs{header.shape, header.grain, header.rereads, header.in_order};
    }
    return stored;
}

/// Whether the files are as large as matrices that are stored in earnest, compressed or sparse as they may
/// be. A small file that claims to hold a huge matrix is not worked on for days unless a memory limit asks
/// for it.
bool holds_what_it_says(const Plan& plan, std::uint64_t matrix_bytes) {
    constexpr std::uint64_t kMostInflation = 64;
    std::uint64_t stored = 0;
    for (const PlannedInput& input : plan.inputs) add_bytes(stored, input.header().file_bytes);
    return stored >= matrix_bytes / kMostInflation;
}

/// Less than the tool itself takes: it is there, and the system, whose answer takes time, is not asked.
constexpr std::uint64_t kAlwaysThere = std::uint64_t{4} << 20;

bool fits_host(std::uint64_t bytes, std::optional<std::uint64_t> limit) {
    if (limit) return bytes <= *limit;
    return bytes <= kAlwaysThere || bytes <= available_memory_bytes();
}

/// One part where all fits into memory, else as many as it takes.
void plan_parts(const RunOptions& options, Plan& plan) {
    std::string what = describe_work(plan);
    const std::uint64_t of_check = verification_bytes(plan.problem, options.verify);
    if (of_check > 0) what += " with " + format_bytes(of_check) + " to verify it";
    std::uint64_t fixed_bytes = of_check;
    std::uint64_t open_bytes = 0;
    std::string words;
    for (const PlannedInput& input : plan.inputs) {
        add_bytes(open_bytes, input.reader->open_bytes());
        const std::string more = input.reader->open_words();
        if (!more.empty()) words += (words.empty() ? " (" : ", ") + more;
    }
    if (open_bytes > 0)
        what += " with " + format_bytes(open_bytes) + " to read virtual datasets and sparse matrices" +
                words + (words.empty() ? "" : ")");
    plan.working_bytes = working_bytes(options, plan);
    if (plan.working_bytes > 0)
        what +=
            " with " + format_bytes(plan.working_bytes) + " for chunks and text that are read and written";
    add_bytes(fixed_bytes, open_bytes);
    add_bytes(fixed_bytes, plan.working_bytes);

    std::uint64_t matrix_bytes = 0;
    for (const PlannedInput& input : plan.inputs)
        add_bytes(matrix_bytes,
                  dense_bytes(input.header().shape, input.header().type, to_string(input.header().source)));
    const std::size_t result_bytes = dense_bytes(plan.result, plan.result_type, "the result");
    const bool overwrites = plan.problem.in_place && !plan.gpu;
    plan.keeps_input =
        overwrites && (options.verify == VerifyMode::full || options.verify == VerifyMode::freivalds);
    if (!overwrites || plan.keeps_input) add_bytes(matrix_bytes, result_bytes);
    plan.host_bytes = matrix_bytes;
    add_bytes(plan.host_bytes, fixed_bytes);
    plan.device_bytes = !plan.gpu ? 0 : plan.problem.in_place ? result_bytes : matrix_bytes;

    const std::uint64_t device_most = plan.gpu ? device_room(options, plan, plan.device_bytes) : 0;
    const auto inputs = stored_inputs(options, plan);
    if (fits_host(plan.host_bytes, options.memory_limit) && plan.device_bytes <= device_most) {
        plan.parts.emplace(plan.problem, inputs);
        return;
    }
    const std::uint64_t host_room = options.memory_limit ? *options.memory_limit : available_memory_bytes();
    const bool cuts =
        options.memory_limit || holds_what_it_says(plan, matrix_bytes) || plan.host_bytes <= host_room;
    if (!cuts || plan.problem.operation->part == nullptr || plan.problem.in_place ||
        plan.result.elements() == 0) {
        require_memory(plan.host_bytes, options.memory_limit, what);
        if (plan.device_bytes <= device_most) {  // host memory has come free meanwhile
            plan.parts.emplace(plan.problem, inputs);
            return;
        }
        throw Error(ErrorCode::memory, what + " needs " + format_need(plan.device_bytes) + " on " +
                                           plan.gpu->info().name + ", and " + format_bytes(device_most) +
                                           " may be taken");
    }
    StoredAs result{plan.result};
    const bool verified_by_part = plan.problem.operation->check->bytes_by_part;
    if (verified_by_part) fixed_bytes -= of_check;
    CutLimits limits{.host_bytes = host_room - std::min(host_room, fixed_bytes)};
    if (plan.gpu) limits.device_bytes = device_most;
    if (verified_by_part) {
        limits.verification_bytes = [&](const Problem& part) {
            return verification_bytes(part, options.verify);
        };
    }
    if (plan.output) {
        const formats::Format& format = plan.output->format();
        limits.order = format.order;
        if (format.writing_grain != nullptr)
            result.grain = format.writing_grain(plan.result, plan.result_type, options.write);
    }
    plan.parts.emplace(plan.problem, inputs, result, limits, fixed_bytes, host_room, what);
    plan.host_bytes = fixed_bytes;
    add_bytes(plan.host_bytes, plan.parts->host_bytes());
    plan.device_bytes = plan.parts->device_bytes();
}

/// The dataset that a result gets where none was named.
std::string default_dataset(const Plan& plan) {
    const Operation& operation = *plan.problem.operation;
    if (!operation.dataset.empty()) return std::string(operation.dataset);
    const std::string& source = plan.inputs.front().header().source.dataset;
    return source.empty() ? "/A" : source;
}

void plan_output(const RunOptions& options, Plan& plan) {
    if (!options.output) return;
    plan.output.emplace(DestinationRequest{.output = *options.output,
                                           .format = options.output_format,
                                           .default_dataset = default_dataset(plan),
                                           .force = options.force});
}

}  // namespace

void require_one_standard_input(const std::vector<std::optional<formats::Reference>>& matrices) {
    const auto is_standard_input = [](const auto& matrix) { return matrix && matrix->path == "-"; };
    if (std::ranges::count_if(matrices, is_standard_input) > 1)
        throw Error(ErrorCode::usage, "standard input ('-') can be only one of the matrices that are read");
}

std::vector<PlannedInput> open_inputs(const Operation& operation,
                                      const std::vector<std::optional<formats::Reference>>& references,
                                      const formats::ReadOptions& read) {
    require_one_standard_input(references);
    std::vector<PlannedInput> inputs;
    for (std::size_t role = 0; role < references.size(); ++role) {
        if (!references[role]) continue;
        inputs.push_back({role, operation.roles[role].name, formats::open_reader(*references[role], read)});
    }
    return inputs;
}

std::vector<std::string> files_of(const std::vector<PlannedInput>& inputs) {
    std::vector<std::string> files;
    for (const PlannedInput& input : inputs)
        std::ranges::copy(input.reader->files(), std::back_inserter(files));
    return files;
}

Problem problem_of_inputs(const Operation& operation, const std::vector<PlannedInput>& inputs,
                          std::size_t roles,
                          const std::map<std::string, std::string, std::less<>>& settings) {
    require_one_type(inputs);
    ProblemRequest request = {.type = inputs.front().header().type,
                              .inputs = std::vector<std::optional<GivenInput>>(roles),
                              .settings = settings};
    for (const PlannedInput& input : inputs)
        request.inputs[input.role] = GivenInput{describe(input), input.header().shape};
    return problem_of(operation, request);
}

const Level* find_level(const Registry& registry, const Operation& operation, DeviceKind device,
                        const std::string& level) {
    const DeviceKind other = device == DeviceKind::cpu ? DeviceKind::gpu : DeviceKind::cpu;
    for (const DeviceKind kind : {device, other}) {
        if (const Level* found = registry.find(operation, kind, level)) return found;
    }
    refuse_level(registry, operation, level);
}

namespace {

/// Puts the device into the plan, and the parts in which the problem fits.
void plan_on(DeviceChoice choice, const RunOptions& options, Plan& plan) {
    plan.device = choice.device;
    plan.gpu = std::move(choice.gpu);
    plan.chosen_because = std::move(choice.reason);
    plan_parts(options, plan);
}

void choose_device_and_parts(const RunOptions& options, const Registry& registry, const Tell& say,
                             Plan& plan) {
    const DeviceRequest request{.operation = *options.operation,
                                .device = options.device,
                                .level = options.level,
                                .parameters = options.parameters,
                                .threads = options.threads,
                                .runs = options.warmup + options.repeat};
    try {
        plan_on(choose_device_for_run(request, plan.problem, registry, say), options, plan);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::memory || !plan.gpu) throw;
        auto cpu = cpu_instead(request, plan.problem.type, error.what(), registry);
        if (!cpu) throw;
        plan_on(*std::move(cpu), options, plan);
        tell(say, Severity::info, plan.chosen_because);
    }
}

}  // namespace

Plan make_plan(const RunOptions& options, const Registry& registry, Timeline& timeline, const Tell& say) {
    Plan plan;
    if (options.level != "auto") find_level(registry, *options.operation, DeviceKind::gpu, options.level);
    timeline.open([&] { plan.inputs = open_inputs(*options.operation, options.inputs, options.read); });
    const StageClock::Work deciding(timeline.prepare);
    plan.problem =
        problem_of_inputs(*options.operation, plan.inputs, options.inputs.size(), options.settings);
    plan.problem.parameters = options.parameters;
    plan.result = options.operation->result(plan.problem);
    plan.result_type = result_type(plan.problem);
    plan_output(options, plan);
    choose_device_and_parts(options, registry, say, plan);
    choose_level(options, registry, say, plan);
    return plan;
}

}  // namespace gpumat
