#include "lib/run/plan/level.hpp"

#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text/suggestion.hpp"
#include "lib/choose/auto_level.hpp"
#include "lib/run/executor.hpp"
#include "lib/run/plan.hpp"

namespace gpumat {
namespace {

std::string level_names(const Registry& registry, const Operation& operation, DeviceKind device) {
    std::string names = "auto";
    for (const Level* level : registry.levels(operation, device)) {
        names += ", ";
        names += level->name;
    }
    return names;
}

std::string sparse_level_names(const Registry& registry, const Operation& operation) {
    std::string names;
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
        std::string some;
        for (const Level* level : registry.sparse_levels(operation, device))
            some += (some.empty() ? "" : ", ") + std::string(level->name);
        if (!some.empty()) names += "; of sparse matrices on a " + std::string(name_of(device)) + ": " + some;
    }
    return names;
}

[[noreturn]] void refuse_level(const Registry& registry, const Operation& operation,
                               const std::string& level) {
    std::vector<std::string> known = {"auto"};
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
        for (const Level* one : registry.levels(operation, device)) known.emplace_back(one->name);
        for (const Level* one : registry.sparse_levels(operation, device)) known.emplace_back(one->name);
    }
    throw Error(ErrorCode::usage, "there is no " + std::string(name_of(operation)) + " level '" + level +
                                      "'; on a gpu: " + level_names(registry, operation, DeviceKind::gpu) +
                                      "; on a cpu: " + level_names(registry, operation, DeviceKind::cpu) +
                                      sparse_level_names(registry, operation) + suggestion(level, known));
}

}  // namespace

const Level* find_level(const Registry& registry, const Operation& operation, DeviceKind device,
                        const std::string& level) {
    const DeviceKind other = device == DeviceKind::cpu ? DeviceKind::gpu : DeviceKind::cpu;
    for (const DeviceKind kind : {device, other}) {
        if (const Level* found = registry.find(operation, kind, level)) return found;
    }
    for (const DeviceKind kind : {device, other}) {
        if (const Level* found = registry.find_sparse(operation, kind, level)) return found;
    }
    refuse_level(registry, operation, level);
}

/// The level that was named, or the choice of `auto` for a part; the plan's problem takes the chosen
/// parameters.
void choose_level(const RunOptions& options, const Registry& registry, const Tell& say, Plan& plan) {
    const Problem problem = plan.parts->at(0).problem;
    if (options.level == "auto") {
        Choice choice = choose_auto(problem, plan.lane().device, registry, say);
        plan.level = choice.level;
        plan.problem.parameters = std::move(choice.problem.parameters);
        plan.parts->set_parameters(plan.problem.parameters);
        plan.chosen_because += (plan.chosen_because.empty() ? "" : "; ") + choice.reason;
        return;
    }
    plan.level = find_level(registry, *options.operation, plan.lane().device.kind, options.level);
    const Reasons reasons = unsupported_reasons(*plan.level, problem, plan.lane().device);
    if (reasons.empty()) return;
    throw Error(ErrorCode::unsupported,
                "level '" + std::string(plan.level->name) + "' cannot serve this problem: " + join(reasons));
}

}  // namespace gpumat
