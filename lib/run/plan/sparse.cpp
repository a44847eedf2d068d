#include "lib/run/plan/sparse.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "core/sparse/csr.hpp"
#include "kernels/check/check.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/output/sparse_output.hpp"
#include "lib/run/executor.hpp"
#include "lib/run/plan.hpp"
#include "lib/run/plan/level.hpp"
#include "lib/run/plan/memory.hpp"
#include "lib/run/sparse/ways.hpp"
#include "lib/stored/dense_as_sparse.hpp"

namespace gpumat {
namespace {

constexpr const char* kDenseInstead = "; --dense makes the matrices dense";

std::string sparse_names(const Registry& registry, const Problem& problem, DeviceKind device) {
    std::string names = "auto";
    for (const Level* level : registry.sparse_levels(problem, device))
        names += ", " + std::string(level->name);
    return names;
}

/// The device that is named. `auto` is the CPU, which moves entries faster than they come to a GPU and back,
/// unless only GPUs have the level.
void choose_sparse_device(const RunOptions& options, const Registry& registry, Plan& plan) {
    std::string device = options.device;
    if (device == "auto") {
        const auto has_level = [&](DeviceKind kind) {
            return registry.find_sparse(plan.problem, kind, options.level) != nullptr;
        };
        device = !has_level(DeviceKind::cpu) && has_level(DeviceKind::gpu) ? "gpu" : "cpu";
    }
    if (device != "cpu" && registry.sparse_levels(plan.problem, DeviceKind::gpu).empty())
        throw Error(
            ErrorCode::unsupported,
            fmt::format("no level for matrices that are sparse as these runs on a gpu; on a cpu: {}{}",
                        sparse_names(registry, plan.problem, DeviceKind::cpu), kDenseInstead));
    DeviceChoice choice = choose_device(device, *options.operation, "auto", options.threads, registry);
    plan.lanes.clear();
    plan.lanes.push_back({.device = choice.device, .gpu = std::move(choice.gpu)});
}

void choose_sparse_level(const RunOptions& options, const Registry& registry, Plan& plan) {
    const Operation& operation = *options.operation;
    if (options.level == "auto") {
        Choice choice = registry.choose(plan.problem, plan.lane().device);
        plan.level = choice.level;
        plan.problem.parameters = std::move(choice.problem.parameters);
        plan.chosen_because = choice.reason;
        return;
    }
    const DeviceKind device = plan.lane().device.kind;
    plan.level = registry.find_sparse(plan.problem, device, options.level);
    if (plan.level == nullptr) plan.level = find_level(registry, operation, device, options.level);
    const Reasons reasons = unsupported_reasons(*plan.level, plan.problem, plan.lane().device);
    if (reasons.empty()) return;
    throw Error(ErrorCode::unsupported,
                fmt::format("level '{}' cannot serve this problem: {}; levels for sparse matrices: {}{}",
                            plan.level->name, join(reasons), sparse_names(registry, plan.problem, device),
                            kDenseInstead));
}

bool is_held_sparse(const PlannedInput& input, const Plan& plan) {
    return plan.problem.structure.inputs.at(input.role) == Storage::csr;
}

/// What the dense matrices would take, in words.
std::string dense_words(const Plan& plan) {
    const auto bytes_of = [](const Shape& shape, Type type) {
        return static_cast<double>(shape.rows) * static_cast<double>(shape.cols) *
               static_cast<double>(size_of(type));
    };
    double bytes = bytes_of(plan.result, plan.result_type);
    for (const PlannedInput& input : plan.inputs)
        bytes += bytes_of(input.header().shape, input.header().type);
    return "dense, which can go in parts, " + format_traffic(bytes) + " for all";
}

/// "this transpose of sparse matrices (A = A.mtx is 4x5 with up to 7 entries, …".
std::string describe_sparse_work(const Plan& plan) {
    std::string text = "this " + std::string(name_of(*plan.problem.operation)) + " of sparse matrices (";
    for (const PlannedInput& input : plan.inputs) {
        text += describe(input);
        if (is_held_sparse(input, plan))
            text += fmt::format(" with up to {} entries", plan.problem.entries.at(input.role));
        text += ", ";
    }
    return text + "all " + std::string(name_of(plan.problem.type)) + "; " + dense_words(plan) + ")";
}

std::uint64_t bytes_of_inputs(const Plan& plan) {
    std::uint64_t bytes = 0;
    for (const PlannedInput& input : plan.inputs) {
        const formats::Header& header = input.header();
        bytes = saturating_add(bytes,
                               is_held_sparse(input, plan)
                                   ? csr_bytes(header.shape, header.type, plan.problem.entries.at(input.role))
                                   : dense_bytes(header.shape, header.type, to_string(header.source)));
    }
    return bytes;
}

/// A sparse result that is counted has none yet.
std::int64_t entries_of_result(const Plan& plan) {
    const auto entries = plan.problem.operation->result_entries;
    return entries == nullptr ? 0 : entries(plan.problem);
}

std::uint64_t bytes_of_result(const Plan& plan) {
    if (!plan.result_is_sparse()) return dense_bytes(plan.result, plan.result_type, "the result");
    return csr_bytes(plan.result, plan.result_type, entries_of_result(plan));
}

/// What reading one input after the other takes at most.
std::uint64_t bytes_of_reading(const Plan& plan) {
    std::uint64_t others = bytes_of_inputs(plan);
    std::uint64_t most = others;
    for (const PlannedInput& input : plan.inputs) {
        if (!is_held_sparse(input, plan)) continue;
        const formats::Header& header = input.header();
        const std::uint64_t held = csr_bytes(header.shape, header.type, plan.problem.entries.at(input.role));
        most = std::max(
            most, saturating_add(others - std::min(others, held), formats::sparse_reading_bytes(header)));
    }
    return most;
}

std::uint64_t bytes_of_writing(const Plan& plan) {
    if (!plan.output) return 0;
    const formats::Format& format = plan.output->format();
    if (plan.result_is_sparse())
        return format.sparse_writing_bytes(plan.result, plan.result_type, entries_of_result(plan),
                                           plan.write);
    return format.writing_bytes == nullptr ? 0
                                           : format.writing_bytes(plan.result, plan.result_type, plan.write);
}

/// Whether the result has the values of its one input, and both are text.
bool can_keep_text(const Plan& plan) {
    return plan.problem.operation->keeps_attributes && plan.inputs.size() == 1 && plan.result_is_sparse() &&
           !is_conjugated(plan.problem, 0) && plan.output &&
           keeps_text(plan.inputs.front().header(), plan.output->format());
}

/// What all but reading and writing takes where values are carried as text.
std::uint64_t bytes_as_text(const RunOptions& options, const Plan& plan) {
    const formats::Header& header = plan.inputs.front().header();
    Problem places = plan.problem;
    places.type = text_type(header.type);
    const std::int64_t entries = plan.problem.entries.front();
    const std::uint64_t workspace =
        plan.level->workspace == nullptr ? 0 : plan.level->workspace(places, options.threads);
    const std::uint64_t computing =
        saturating_add(saturating_add(csr_bytes(header.shape, places.type, entries),
                                      csr_bytes(plan.result, places.type, entries_of_result(plan))),
                       std::max(workspace, verification_bytes(places, options.verify)));
    return saturating_add(*header.text_bytes,
                          std::max(to_csr_bytes(header.shape, places.type, entries), computing));
}

/// With what parts take at least, where that is less than the whole.
[[noreturn]] void refuse_memory(const RunOptions& options, const Plan& plan) {
    std::string what = describe_sparse_work(plan);
    const auto least = sparse::least_for_parts(options, plan, bytes_of_writing(plan));
    const std::uint64_t needed = std::min(plan.host_bytes, least.value_or(plan.host_bytes));
    if (options.memory_limit && needed > *options.memory_limit && needed < plan.host_bytes)
        require_memory(needed, options.memory_limit,
                       what + " in parts (" + format_need(plan.host_bytes) + " as a whole)");
    require_memory(plan.host_bytes, options.memory_limit, what);
    throw Error(ErrorCode::memory, what + " needs " + format_need(plan.host_bytes) + " of memory");
}

void plan_sparse_memory(const RunOptions& options, Plan& plan) {
    plan.working_bytes = bytes_of_writing(plan);
    std::uint64_t open = 0;
    for (const PlannedInput& input : plan.inputs) {
        plan.working_bytes = std::max(plan.working_bytes, input.reader->working_bytes());
        open = saturating_add(open, input.reader->open_bytes());
    }
    const std::uint64_t workspace =
        plan.level->workspace == nullptr ? 0 : plan.level->workspace(plan.problem, options.threads);
    const std::uint64_t computing =
        saturating_add(saturating_add(bytes_of_inputs(plan), bytes_of_result(plan)),
                       std::max(workspace, verification_bytes(plan.problem, options.verify)));
    plan.host_bytes =
        saturating_add(saturating_add(std::max(bytes_of_reading(plan), computing), plan.working_bytes), open);
    if (can_keep_text(plan)) {
        const std::uint64_t bytes =
            saturating_add(saturating_add(bytes_as_text(options, plan), plan.working_bytes), open);
        plan.as_text = bytes <= options.memory_limit.value_or(available_memory_bytes());
        if (plan.as_text) plan.host_bytes = bytes;
    }
    const bool fits = plan.host_bytes <= options.memory_limit.value_or(available_memory_bytes());
    if (!fits && sparse::plan_sparse_parts(options, bytes_of_writing(plan), plan)) return;
    if (!fits) refuse_memory(options, plan);
    if (!plan.lane().gpu) return;
    plan.lane().device_bytes = saturating_add(bytes_of_inputs(plan), bytes_of_result(plan));
    require_device_memory(options, plan, describe_sparse_work(plan));
}

}  // namespace

void choose_structure(const RunOptions& options, Plan& plan) {
    const Operation& operation = *options.operation;
    if (options.dense || operation.sparse_levels == nullptr) return;
    std::array<Storage, kMostInputs> stored = {};
    std::optional<formats::SparseLayout> layout;
    bool logical = false;
    for (const PlannedInput& input : plan.inputs) {
        if (!is_sparse(input.header())) continue;
        stored.at(input.role) = Storage::csr;
        if (!layout) layout = input.header().sparse_layout;
        logical |= operation.keeps_attributes && input.header().logical;
    }
    if (std::ranges::find(stored, Storage::csr) == stored.end()) return;
    const Structure structure = operation.structure(plan.problem, stored);
    if (structure.result == Storage::csr) {
        if (has_pointers_alone(plan.result)) return;
        if (plan.output) {
            const formats::WriteOptions how =
                with_layout_kept(plan.write, plan.output->format(), layout, logical, plan.result_type);
            if (!writes_sparse(plan.output->format(), how)) return;
            plan.write = how;
        }
    }
    plan.problem.structure = structure;
}

void plan_sparse(const RunOptions& options, const Registry& registry, Plan& plan) {
    for (const PlannedInput& input : plan.inputs)
        if (is_held_sparse(input, plan)) plan.problem.entries.at(input.role) = *input.header().most_entries;
    choose_sparse_device(options, registry, plan);
    choose_sparse_level(options, registry, plan);
    plan_sparse_memory(options, plan);
}

void require_memory_for_counted(const RunOptions& options, const Plan& plan, std::int64_t entries) {
    const std::uint64_t result = entry_bytes(plan.result, plan.result_type, entries);
    require_memory(saturating_add(plan.host_bytes, result), options.memory_limit,
                   fmt::format("{} has a result of {} entries and", describe_sparse_work(plan), entries));
}

bool plan_counted_in_parts(const RunOptions& options, Plan& plan) {
    const bool counted = plan.result_is_sparse() && plan.problem.operation->result_entries == nullptr;
    const bool again =
        std::ranges::none_of(plan.inputs, [](const PlannedInput& input) { return input.header().in_order; });
    return counted && again && sparse::plan_sparse_parts(options, bytes_of_writing(plan), plan);
}

}  // namespace gpumat
