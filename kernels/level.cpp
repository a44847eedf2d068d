#include "kernels/level.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>

#include "core/error.hpp"
#include "kernels/operation.hpp"

namespace gpumat {
namespace {

std::string join(std::span<const std::string_view> values) {
    std::string text;
    for (const std::string_view value : values) text += (text.empty() ? "" : ", ") + std::string(value);
    return text;
}

std::string join(std::span<const Type> types) {
    std::string text;
    for (const Type type : types) text += (text.empty() ? "" : ", ") + std::string(name_of(type));
    return text;
}

/// "sparse matrices", or "sparse A and dense B".
std::string words_of(const Structure& structure, const Problem& problem, const std::string& matrices) {
    const auto word = [](Storage storage) { return storage == Storage::dense ? "dense " : "sparse "; };
    std::string text;
    bool all_alike = true;
    for (std::size_t role = 0; role < problem.operation->roles.size(); ++role) {
        if (!problem.operation->input(problem, role)) continue;
        const Storage storage = structure.inputs.at(role);
        all_alike = all_alike && storage == structure.inputs.front();
        text += (text.empty() ? "" : " and ") + std::string(word(storage));
        text += problem.operation->roles[role].name;
    }
    return all_alike ? word(structure.inputs.front()) + matrices : text;
}

/// Whether both mean the same for a problem: what it does not read may lie in any way.
bool same_structure(const Structure& x, const Structure& y, const Problem& problem) {
    for (std::size_t role = 0; role < problem.operation->roles.size(); ++role) {
        if (x.inputs.at(role) != y.inputs.at(role) && problem.operation->input(problem, role)) return false;
    }
    return x.result == y.result;
}

void add_structure_reasons(const Level& level, const Problem& problem, Reasons& reasons) {
    if (takes_structure(level, problem)) return;
    std::string taken;
    for (const Structure& one : level.needs.structures)
        taken += (taken.empty() ? "" : ", or on ") + words_of(one, problem, "matrices");
    if (taken.empty()) taken = "dense matrices";
    reasons.push_back("it works on " + taken + ", not on " + words_of(problem.structure, problem, "ones"));
}

std::string capability(int value) {
    return std::to_string(value / 10) + "." + std::to_string(value % 10);
}

void add_device_reasons(const Level& level, const Device& device, Reasons& reasons) {
    if (level.prepare == nullptr) {
        reasons.emplace_back("this build of gpumat has no CUDA support");
    }
    if (level.device != device.kind) {
        reasons.push_back("it runs on a " + std::string(name_of(level.device)) + ", and the device is a " +
                          std::string(name_of(device.kind)));
        return;
    }
    if (device.kind == DeviceKind::gpu && device.gpu != nullptr &&
        device.gpu->info().compute_capability < level.needs.compute_capability) {
        reasons.push_back("it needs compute capability " + capability(level.needs.compute_capability) +
                          ", and " + device.gpu->info().name + " has " +
                          capability(device.gpu->info().compute_capability));
    }
}

void add_parameter_reasons(const Level& level, const Problem& problem, Reasons& reasons) {
    for (const auto& [name, value] : problem.parameters) {
        const auto found = std::ranges::find(level.parameters, name, &Parameter::name);
        if (found == level.parameters.end()) {
            reasons.push_back("it has no parameter '" + name + "'");
        } else if (std::ranges::find(found->choices, value) == found->choices.end()) {
            reasons.push_back("its parameter '" + name + "' takes " + join(found->choices) + ", not " +
                              value);
        }
    }
}

void add_setting_reasons(const Level& level, const Problem& problem, Reasons& reasons) {
    for (const auto& [name, value] : problem.choices) {
        const Setting* const setting = problem.operation->setting(name);
        if (setting != nullptr && setting->of_levels &&
            std::ranges::find(level.needs.settings, name) == level.needs.settings.end())
            reasons.push_back("it cannot do --" + name + " " + value);
    }
}

/// Throws where the level cannot take operands that lie so.
void require_operands(const Level& level, const Problem& problem, const Operands& operands,
                      const Device& device) {
    const Structure given = {{operands.a.storage, operands.b.storage, operands.d.storage},
                             operands.c.storage};
    if (!takes_structure(level, problem) || !same_structure(given, problem.structure, problem))
        throw Error(ErrorCode::unsupported,
                    "level '" + std::string(level.name) + "' does not take operands stored so");
    if (level.unsupported == nullptr) return;
    const Reasons reasons = level.unsupported(problem, operands, device);
    if (!reasons.empty())
        throw Error(ErrorCode::unsupported, "level '" + std::string(level.name) + "': " + reasons.front());
}

/// The operands as the level sees them. A copy's result has the shape of its input; memory without gaps that
/// is described as that of the transpose is the same.
Operands seen_by(const Level& level, Operands operands) {
    if (level.copies && is_contiguous(operands.c)) {
        operands.c.rows = operands.a.rows;
        operands.c.cols = operands.a.cols;
        operands.c.pitch = operands.a.cols;
    }
    return operands;
}

}  // namespace

std::string_view name_of(Role role) {
    switch (role) {
        case Role::rung:
            return "rung";
        case Role::baseline:
            return "baseline";
        default:
            return "vendor";
    }
}

Arithmetic plain_arithmetic(Type element) {
    const Type type = element == Type::f16 || element == Type::bf16 ? Type::f32 : element;
    return {.products = type, .sums = type};
}

Arithmetic plain_arithmetic(const Problem& problem) {
    return plain_arithmetic(problem.type);
}

std::string_view name_of(Factors factors) {
    return factors == Factors::own ? "own" : kComputeChoices.at(static_cast<std::size_t>(factors) - 1);
}

Factors factors_of(const Problem& problem) {
    const auto asked = problem.choices.find("compute");
    if (asked == problem.choices.end()) return Factors::own;
    const auto* const found = std::ranges::find(kComputeChoices, asked->second);
    return static_cast<Factors>(1 + (found - kComputeChoices.begin()));
}

bool takes_structure(const Level& level, const Problem& problem) {
    if (level.needs.structures.empty()) return same_structure({}, problem.structure, problem);
    return std::ranges::any_of(level.needs.structures, [&](const Structure& one) {
        return same_structure(one, problem.structure, problem);
    });
}

Reasons unsupported_reasons(const Level& level, const Problem& problem, const Operands& operands,
                            const Device& device) {
    Reasons reasons;
    add_device_reasons(level, device, reasons);
    const auto types = level.needs.types;
    if (!types.empty() && std::ranges::find(types, problem.type) == types.end()) {
        reasons.push_back("it works on " + join(types) + ", not on " + std::string(name_of(problem.type)));
    }
    add_structure_reasons(level, problem, reasons);
    add_parameter_reasons(level, problem, reasons);
    add_setting_reasons(level, problem, reasons);
    if (reasons.empty() && level.unsupported != nullptr)
        reasons = level.unsupported(problem, seen_by(level, operands), device);
    return reasons;
}

Reasons unsupported_reasons(const Level& level, const Problem& problem, const Device& device) {
    return unsupported_reasons(level, problem, contiguous_operands(problem, {}), device);
}

Launch prepare_launch(const Level& level, const Problem& problem, const Operands& operands,
                      const Device& device) {
    if (device.gpu != nullptr) device.gpu->make_current();
    // Without elements there may be any number of rows or columns, which no level should count or have work
    // space for.
    const Shape result = problem.operation->result(problem);
    const bool empty = !problem.is_sparse() && (result.rows == 0 || result.cols == 0);
    Problem served = as_read(problem);
    if (empty) served.m = served.n = served.k = 0;
    const Operands seen = seen_by(level, operands);
    require_operands(level, served, seen, device);
    Launch launch = level.prepare(served, seen, device);
    if (launch.level != level.name) {
        throw Error(ErrorCode::unsupported, "level '" + std::string(level.name) +
                                                "' was asked for, and what was prepared names itself '" +
                                                std::string(launch.level) + "'");
    }
    if (empty) launch.run = [](Stream) {};
    return launch;
}

std::string_view parameter_choice(std::span<const Parameter> parameters, const Problem& problem,
                                  std::string_view name) {
    if (const auto asked = problem.parameters.find(name); asked != problem.parameters.end())
        return asked->second;
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    if (found == parameters.end()) throw std::logic_error("no such parameter: " + std::string(name));
    return found->fallback;
}

int parameter_number(std::span<const Parameter> parameters, const Problem& problem, std::string_view name) {
    const std::string_view text = parameter_choice(parameters, problem, name);
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
        throw std::logic_error("parameter " + std::string(name) + " is no number: " + std::string(text));
    return number;
}

}  // namespace gpumat
