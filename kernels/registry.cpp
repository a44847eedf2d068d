#include "kernels/registry.hpp"

#include "kernels/multiply/cpu/levels.hpp"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/transpose/cpu/baselines.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/gpu/baselines.hpp"
#include "kernels/transpose/gpu/levels.hpp"
#include "lib/core/error.hpp"

namespace gpumat {
namespace {

std::vector<Preference> preferences(const Problem& problem, const Device& device) {
    const bool on_gpu = device.kind == DeviceKind::gpu;
    if (problem.operation == Operation::transpose) {
        return on_gpu ? transpose::gpu::preference(problem, device)
                      : transpose::cpu::preference(problem, device);
    }
    return on_gpu ? multiply::gpu::preference(problem, device) : multiply::cpu::preference(problem, device);
}

std::vector<const Level*> matching(const std::vector<Level>& levels, Operation operation, DeviceKind device) {
    std::vector<const Level*> found;
    for (const Level& level : levels) {
        if (level.operation == operation && level.device == device) found.push_back(&level);
    }
    return found;
}

}  // namespace

Registry Registry::standard() {
    std::vector<Level> levels;
    for (const auto table : {transpose::gpu::levels(), transpose::cpu::levels(), multiply::gpu::levels(),
                             multiply::cpu::levels()}) {
        levels.insert(levels.end(), table.begin(), table.end());
    }
    std::vector<Level> baselines;
    for (const auto table : {transpose::gpu::baselines(), transpose::cpu::baselines()}) {
        baselines.insert(baselines.end(), table.begin(), table.end());
    }
    return Registry(std::move(levels), std::move(baselines));
}

std::vector<const Level*> Registry::levels(Operation operation, DeviceKind device) const {
    return matching(levels_, operation, device);
}

std::vector<const Level*> Registry::baselines(Operation operation, DeviceKind device) const {
    return matching(baselines_, operation, device);
}

const Level* Registry::find(Operation operation, DeviceKind device, std::string_view name_or_number) const {
    for (const Level* level : levels(operation, device)) {
        if (level->name == name_or_number || std::to_string(level->number) == name_or_number) return level;
    }
    return nullptr;
}

Choice Registry::choose(const Problem& problem, const Device& device) const {
    std::string refusals;
    for (const auto& [name, reason, parameters] : preferences(problem, device)) {
        const Level* level = find(problem.operation, device.kind, name);
        if (level == nullptr) continue;
        Problem chosen = problem;
        chosen.parameters.insert(parameters.begin(), parameters.end());  // those asked for stay
        const Reasons reasons = unsupported_reasons(*level, chosen, device);
        if (reasons.empty()) return {level, reason, chosen};
        for (const std::string& why : reasons) refusals += "\n  " + std::string(name) + ": " + why;
    }
    throw Error(ErrorCode::unsupported, "no " + std::string(name_of(problem.operation)) + " level on the " +
                                            std::string(name_of(device.kind)) +
                                            " can serve this problem:" + refusals);
}

}  // namespace gpumat
