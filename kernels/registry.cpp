#include "kernels/registry.hpp"

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/reduce/operation.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat {
namespace {

std::vector<Level> levels_of(const std::vector<const Operation*>& operations) {
    std::vector<Level> all;
    for (const Operation* operation : operations)
        std::ranges::move(operation->levels(), std::back_inserter(all));
    return all;
}

const Level* find_in(const std::vector<const Level*>& levels, std::string_view name_or_number) {
    for (const Level* level : levels) {
        const bool numbered = level->role == Role::rung && std::to_string(level->number) == name_or_number;
        if (numbered || level->name == name_or_number) return level;
    }
    return nullptr;
}

}  // namespace

Registry Registry::standard() {
    return Registry({&kTranspose, &kMultiply, &kReduce});
}

Registry::Registry(const std::vector<const Operation*>& operations)
    : Registry(operations, levels_of(operations)) {}

Registry::Registry(std::vector<const Operation*> operations, std::vector<Level> levels)
    : operations_(std::move(operations)), levels_(std::move(levels)) {
    for (const Operation* operation : operations_) {
        if (operation->sparse_levels != nullptr)
            std::ranges::move(operation->sparse_levels(), std::back_inserter(sparse_levels_));
    }
}

const Operation* Registry::operation(std::string_view name) const {
    const auto found = std::ranges::find(operations_, name, &Operation::name);
    return found == operations_.end() ? nullptr : *found;
}

std::string Registry::operation_names() const {
    std::string names;
    for (const Operation* operation : operations_) {
        names += names.empty() ? "" : ", ";
        names += operation->name;
    }
    return names;
}

std::vector<Parameter> Registry::parameters(const Operation& operation) const {
    std::vector<Parameter> all;
    for (const Level& level : levels_) {
        if (level.operation != &operation) continue;
        for (const Parameter& parameter : level.parameters) {
            if (std::ranges::find(all, parameter.name, &Parameter::name) == all.end())
                all.push_back(parameter);
        }
    }
    return all;
}

std::vector<const Level*> Registry::levels(const Operation& operation, DeviceKind device, Role role) const {
    std::vector<const Level*> found;
    for (const Level& level : levels_) {
        if (level.operation == &operation && level.device == device && level.role == role)
            found.push_back(&level);
    }
    return found;
}

std::vector<const Level*> Registry::levels(const Operation& operation, DeviceKind device) const {
    std::vector<const Level*> found = levels(operation, device, Role::rung);
    for (const Level* level : levels(operation, device, Role::vendor)) found.push_back(level);
    return found;
}

const Level* Registry::find(const Operation& operation, DeviceKind device,
                            std::string_view name_or_number) const {
    return find_in(levels(operation, device), name_or_number);
}

std::vector<const Level*> Registry::sparse_levels(const Operation& operation, DeviceKind device) const {
    std::vector<const Level*> found;
    for (const Level& level : sparse_levels_) {
        if (level.operation == &operation && level.device == device) found.push_back(&level);
    }
    return found;
}

const Level* Registry::find_sparse(const Operation& operation, DeviceKind device,
                                   std::string_view name_or_number) const {
    return find_in(sparse_levels(operation, device), name_or_number);
}

std::vector<const Level*> Registry::sparse_levels(const Problem& problem, DeviceKind device) const {
    std::vector<const Level*> found = sparse_levels(*problem.operation, device);
    std::erase_if(found, [&](const Level* level) { return !takes_structure(*level, problem); });
    return found;
}

const Level* Registry::find_sparse(const Problem& problem, DeviceKind device,
                                   std::string_view name_or_number) const {
    return find_in(sparse_levels(problem, device), name_or_number);
}

Choice Registry::choose(const Problem& problem, const Device& device) const {
    std::string refusals;
    for (const auto& [name, reason, parameters] : problem.operation->preference(problem, device)) {
        const Level* level = problem.is_sparse() ? find_sparse(problem, device.kind, name)
                                                 : find(*problem.operation, device.kind, name);
        if (level == nullptr) continue;
        Problem chosen = problem;
        chosen.parameters.insert(parameters.begin(), parameters.end());  // those asked for stay
        const Reasons reasons = unsupported_reasons(*level, chosen, device);
        if (reasons.empty()) return {level, reason, chosen};
        for (const std::string& why : reasons)
            refusals += (refusals.empty() ? " " : "; ") + std::string(name) + ": " + why;
    }
    throw Error(ErrorCode::unsupported, "no " + std::string(name_of(*problem.operation)) + " level on the " +
                                            std::string(name_of(device.kind)) +
                                            " can serve this problem:" + refusals);
}

}  // namespace gpumat
