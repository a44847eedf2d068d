#include "lib/run/plan/memory.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "kernels/check/check.hpp"
#include "kernels/device/nvml.hpp"
#include "lib/run/plan.hpp"
#include "lib/stored/dense_as_sparse.hpp"
#include "lib/stored/in_earnest.hpp"

namespace gpumat {
namespace {

/// What reading and writing take beside blocks of the matrices.
std::uint64_t working_bytes(const Plan& plan) {
    std::uint64_t reading = 0;
    for (const PlannedInput& input : plan.inputs) reading = std::max(reading, input.reader->working_bytes());
    if (!plan.output || plan.output->format().writing_bytes == nullptr) return reading;
    reading = saturating_add(reading,
                             plan.output->format().writing_bytes(plan.result, plan.result_type, plan.write));
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
    const std::uint64_t all = plan.lane().gpu->info().memory_bytes;
    if (wanted > all / 2) return plan.lane().gpu->free_memory();
    // Where the CPU may take the run, it is worth knowing before that others fill the device.
    return options.device == "auto" ? std::min(all / 2, memory_left_by_others(*plan.lane().gpu)) : all / 2;
}

[[noreturn]] void refuse_device(const PlannedLane& lane, std::uint64_t most, const std::string& what) {
    throw Error(ErrorCode::memory, what + " needs " + format_need(lane.device_bytes) + " on " +
                                       lane.gpu->info().name + ", and " + format_bytes(most) +
                                       " may be taken");
}

bool holds_what_it_says(const Plan& plan, std::uint64_t matrix_bytes) {
    std::uint64_t stored = 0;
    for (const PlannedInput& input : plan.inputs) stored = saturating_add(stored, input.header().file_bytes);
    return are_in_earnest(stored, matrix_bytes);
}

/// Less than the tool itself takes: it is there, and the system, whose answer takes time, is not asked.
constexpr std::uint64_t kAlwaysThere = std::uint64_t{4} << 20;

bool fits_host(std::uint64_t bytes, std::optional<std::uint64_t> limit) {
    if (limit) return bytes <= *limit;
    return bytes <= kAlwaysThere || bytes <= available_memory_bytes();
}

/// What is taken beside blocks of the matrices.
struct Beside {
    std::string what;         ///< the work, and each of these in words
    std::uint64_t check = 0;  ///< to verify the whole at once
    std::uint64_t all = 0;
};

/// Whether matrices are dense for no other reason than that the format keeps sparse ones where it is asked
/// to.
bool would_stay_sparse(const RunOptions& options, const Plan& plan) {
    const auto stored_sparse = [](const PlannedInput& input) { return is_sparse(input.header()); };
    return !options.dense && plan.output && plan.problem.operation->sparse_levels != nullptr &&
           plan.output->format().create_sparse != nullptr && std::ranges::any_of(plan.inputs, stored_sparse);
}

Beside taken_beside(const RunOptions& options, const Plan& plan) {
    Beside beside{.what = describe_work(plan), .check = verification_bytes(plan.problem, options.verify)};
    if (would_stay_sparse(options, plan)) beside.what += ", which --sparse would keep sparse,";
    if (beside.check > 0) beside.what += " with " + format_bytes(beside.check) + " to verify it";
    std::uint64_t open_bytes = 0;
    std::string words;
    for (const PlannedInput& input : plan.inputs) {
        open_bytes = saturating_add(open_bytes, input.reader->open_bytes());
        const std::string more = input.reader->open_words();
        if (!more.empty()) words += (words.empty() ? " (" : ", ") + more;
    }
    if (open_bytes > 0)
        beside.what += " with " + format_bytes(open_bytes) + " to read virtual datasets and sparse matrices" +
                       words + (words.empty() ? "" : ")");
    if (plan.working_bytes > 0)
        beside.what +=
            " with " + format_bytes(plan.working_bytes) + " for chunks and text that are read and written";
    beside.all = saturating_add(saturating_add(beside.check, open_bytes), plan.working_bytes);
    return beside;
}

void cut_into_parts(const RunOptions& options, const std::vector<std::optional<StoredAs>>& inputs,
                    const Beside& beside, std::uint64_t host_room, std::uint64_t device_most, Plan& plan) {
    StoredAs result{plan.result};
    const bool verified_by_part = plan.problem.operation->check->bytes_by_part;
    const std::uint64_t fixed_bytes = beside.all - (verified_by_part ? beside.check : 0);
    CutLimits limits{.host_bytes = host_room - std::min(host_room, fixed_bytes)};
    if (plan.lane().gpu) limits.device_bytes = device_most;
    if (verified_by_part) {
        limits.verification_bytes = [&](const Problem& part) {
            return verification_bytes(part, options.verify);
        };
    }
    if (plan.output) {
        const formats::Format& format = plan.output->format();
        limits.order = format.order;
        if (format.writing_grain != nullptr)
            result.grain = format.writing_grain(plan.result, plan.result_type, plan.write);
    }
    plan.parts.emplace(plan.problem, inputs, result, limits, fixed_bytes, host_room, beside.what);
    plan.host_bytes = saturating_add(fixed_bytes, plan.parts->host_bytes());
    plan.lane().device_bytes = plan.parts->device_bytes();
}

}  // namespace

void require_device_memory(const RunOptions& options, const Plan& plan, const std::string& what) {
    const std::uint64_t most = device_room(options, plan, plan.lane().device_bytes);
    if (plan.lane().device_bytes > most) refuse_device(plan.lane(), most, what);
}

void plan_parts(const RunOptions& options, Plan& plan) {
    plan.working_bytes = working_bytes(plan);
    const Beside beside = taken_beside(options, plan);
    std::uint64_t matrix_bytes = 0;
    for (const PlannedInput& input : plan.inputs) {
        const formats::Header& header = input.header();
        matrix_bytes =
            saturating_add(matrix_bytes, dense_bytes(header.shape, header.type, to_string(header.source)));
    }
    const std::size_t result_bytes = dense_bytes(plan.result, plan.result_type, "the result");
    PlannedLane& lane = plan.lane();
    const bool overwrites = plan.problem.in_place && !lane.gpu;
    plan.keeps_input =
        overwrites && (options.verify == VerifyMode::full || options.verify == VerifyMode::freivalds);
    if (!overwrites || plan.keeps_input) matrix_bytes = saturating_add(matrix_bytes, result_bytes);
    plan.host_bytes = saturating_add(matrix_bytes, beside.all);
    lane.device_bytes = !lane.gpu ? 0 : plan.problem.in_place ? result_bytes : matrix_bytes;

    const std::uint64_t device_most = lane.gpu ? device_room(options, plan, lane.device_bytes) : 0;
    const auto inputs = stored_by_role(plan.inputs, options.inputs.size());
    const bool fits_device = lane.device_bytes <= device_most;
    if (fits_host(plan.host_bytes, options.memory_limit) && fits_device) {
        plan.parts.emplace(plan.problem, inputs);
        return;
    }
    const std::uint64_t host_room = options.memory_limit ? *options.memory_limit : available_memory_bytes();
    const bool cuts =
        options.memory_limit || holds_what_it_says(plan, matrix_bytes) || plan.host_bytes <= host_room;
    const bool can_be_cut =
        plan.problem.operation->part != nullptr && !plan.problem.in_place && plan.result.elements() != 0;
    if (cuts && can_be_cut) return cut_into_parts(options, inputs, beside, host_room, device_most, plan);
    require_memory(plan.host_bytes, options.memory_limit, beside.what);
    if (!fits_device) refuse_device(plan.lane(), device_most, beside.what);
    plan.parts.emplace(plan.problem, inputs);  // host memory has come free meanwhile
}

}  // namespace gpumat
