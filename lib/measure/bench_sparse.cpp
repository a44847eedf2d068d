#include "lib/measure/bench_sparse.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace gpumat {
namespace {

std::vector<std::string> roles_of(const SparseInputs& inputs, const Operation& operation) {
    return inputs.roles.empty() ? std::vector{std::string(operation.roles.front().name)} : inputs.roles;
}

std::size_t role_named(const std::string& name, const Problem& problem) {
    const auto& roles = problem.operation->roles;
    std::string names;
    for (std::size_t role = 0; role < roles.size(); ++role) {
        if (!problem.operation->input(problem, role)) continue;
        if (roles[role].name == name) return role;
        names += (names.empty() ? "" : ", ") + std::string(roles[role].name);
    }
    throw Error(ErrorCode::usage, "--sparse is '" + name + "'; the inputs of a " +
                                      std::string(problem.operation->name) + " are " + names);
}

}  // namespace

Parameters SparseInputs::as_settings(const Operation& operation) const {
    Parameters settings;
    if (!any()) return settings;
    for (const std::string& role : roles_of(*this, operation))
        settings["sparse"] += (settings["sparse"].empty() ? "" : ",") + role;
    settings.insert(parameters.begin(), parameters.end());
    return settings;
}

std::string SparseInputs::described(const Operation& operation) const {
    std::string text;
    for (const auto& [name, value] : as_settings(operation)) {
        if (name != "sparse") text += (text.empty() ? " (" : ", ") + name + " " + value;
    }
    return any() ? "sparse " + as_settings(operation).at("sparse") + text + (text.empty() ? "" : ")") : "";
}

void make_sparse(const SparseInputs& inputs, Problem& problem) {
    if (!inputs.any()) return;
    const Operation& operation = *problem.operation;
    std::array<Storage, kMostInputs> stored = {};
    for (const std::string& name : roles_of(inputs, operation))
        stored.at(role_named(name, problem)) = Storage::csr;
    if (operation.structure != nullptr) problem.structure = operation.structure(problem, stored);
    if (!problem.is_sparse())
        throw Error(ErrorCode::usage,
                    "--sparse: a " + std::string(operation.name) + " has no levels for sparse matrices");
    for (std::size_t role = 0; role < operation.roles.size(); ++role) {
        if (problem.structure.inputs.at(role) == Storage::csr && operation.input(problem, role))
            problem.entries.at(role) = sparse_generator(inputs, problem, role, 0).pattern()->entries();
    }
    if (operation.result_entries != nullptr) problem.result_entries = operation.result_entries(problem);
}

Generator sparse_generator(const SparseInputs& inputs, const Problem& problem, std::size_t role,
                           std::uint64_t seed) {
    GeneratedMatrix wanted = {.kind = "sparse",
                              .shape = *problem.operation->input(problem, role),
                              .type = problem.type,
                              .seed = seed + role,
                              .parameters = inputs.parameters};
    wanted.parameters.try_emplace("pattern", "uniform");
    return Generator(wanted);
}

std::string sparse_device(const Problem& problem, const std::string& level, const Registry& registry) {
    const auto has = [&](DeviceKind kind) {
        return level == "auto" ? !registry.sparse_levels(problem, kind).empty()
                               : registry.find_sparse(problem, kind, level) != nullptr;
    };
    return !has(DeviceKind::gpu) && has(DeviceKind::cpu) ? "cpu" : "auto";
}

}  // namespace gpumat
