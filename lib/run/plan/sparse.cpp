#include "lib/run/plan/sparse.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/csr.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/run/executor.hpp"
#include "lib/run/plan.hpp"
#include "lib/run/plan/level.hpp"

namespace gpumat {
namespace {

constexpr const char* kDenseInstead = "; --dense makes the matrices dense";

std::string sparse_names(const Registry& registry, const Operation& operation) {
    std::string names = "auto";
    for (const Level* level : registry.sparse_levels(operation, DeviceKind::cpu))
        names += ", " + std::string(level->name);
    return names;
}

void choose_sparse_device(const RunOptions& options, const Registry& registry, Plan& plan) {
    if (options.device != "auto" && options.device != "cpu")
        throw Error(ErrorCode::unsupported,
                    fmt::format("no level for sparse matrices runs on a gpu; on a cpu: {}{}",
                                sparse_names(registry, *options.operation), kDenseInstead));
    DeviceChoice choice = choose_device("cpu", *options.operation, "auto", options.threads, registry);
    plan.lanes.clear();
    plan.lanes.push_back({.device = choice.device, .gpu = nullptr});
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
    plan.level = registry.find_sparse(operation, DeviceKind::cpu, options.level);
    if (plan.level == nullptr) plan.level = find_level(registry, operation, DeviceKind::cpu, options.level);
    const Reasons reasons = unsupported_reasons(*plan.level, plan.problem, plan.lane().device);
    if (reasons.empty()) return;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("level '{}' cannot serve this problem: {}; levels for sparse matrices: {}{}",
                    plan.level->name, join(reasons), sparse_names(registry, operation), kDenseInstead));
}

/// What the dense matrices would take, in words.
std::string dense_words(const Plan& plan) {
    const formats::Header& header = plan.inputs.front().header();
    const double bytes = 2.0 * static_cast<double>(header.shape.rows) *
                         static_cast<double>(header.shape.cols) * static_cast<double>(size_of(header.type));
    return format_traffic(bytes);
}

/// Reading holds the entries in either order; computing, the input, the result and what the level needs.
void plan_sparse_memory(const RunOptions& options, Plan& plan) {
    const formats::Reader& reader = *plan.inputs.front().reader;
    const formats::Header& header = reader.header();
    plan.working_bytes =
        std::max(reader.working_bytes(), plan.output->format().sparse_writing_bytes(header.type));
    const std::uint64_t input = csr_bytes(header.shape, header.type, plan.problem.entries);
    const std::uint64_t result = csr_bytes(plan.result, header.type, plan.problem.entries);
    const std::uint64_t workspace =
        plan.level->workspace == nullptr ? 0 : plan.level->workspace(plan.problem, options.threads);
    const std::uint64_t computing = saturating_add(saturating_add(input, result), workspace);
    plan.host_bytes = saturating_add(
        saturating_add(std::max(formats::sparse_reading_bytes(header), computing), plan.working_bytes),
        reader.open_bytes());
    require_memory(plan.host_bytes, options.memory_limit,
                   fmt::format("this {} of sparse matrices ({}, up to {} entries of {}; dense, which can go "
                               "in parts, {} for both)",
                               name_of(*options.operation), describe(plan.inputs.front()),
                               plan.problem.entries, name_of(header.type), dense_words(plan)));
}

}  // namespace

bool stays_sparse(const RunOptions& options, const Plan& plan) {
    return !options.dense && options.operation->sparse_levels != nullptr && plan.inputs.size() == 1 &&
           plan.inputs.front().header().most_entries && plan.output &&
           plan.output->format().create_sparse != nullptr;
}

void plan_sparse(const RunOptions& options, const Registry& registry, Plan& plan) {
    plan.problem.storage = Storage::csr;
    plan.problem.entries = *plan.inputs.front().header().most_entries;
    choose_sparse_device(options, registry, plan);
    choose_sparse_level(options, registry, plan);
    plan_sparse_memory(options, plan);
}

}  // namespace gpumat
