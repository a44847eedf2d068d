#include "kernels/level.hpp"

#include <algorithm>
#include <stdexcept>

#include "lib/core/error.hpp"

namespace gpumat {
namespace {

std::string join(std::span<const int> values) {
    std::string text;
    for (const int value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
    return text;
}

std::string join(std::span<const Type> types) {
    std::string text;
    for (const Type type : types) text += (text.empty() ? "" : ", ") + std::string(name_of(type));
    return text;
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
                              std::to_string(value));
        }
    }
}

}  // namespace

Reasons unsupported_reasons(const Level& level, const Problem& problem, const Device& device) {
    Reasons reasons;
    add_device_reasons(level, device, reasons);
    const auto types = level.needs.types;
    if (!types.empty() && std::ranges::find(types, problem.type) == types.end()) {
        reasons.push_back("it works on " + join(types) + ", not on " + std::string(name_of(problem.type)));
    }
    add_parameter_reasons(level, problem, reasons);
    if (reasons.empty() && level.unsupported != nullptr) reasons = level.unsupported(problem, device);
    return reasons;
}

Launch prepare_launch(const Level& level, const Problem& problem, const Operands& operands,
                      const Device& device) {
    // Without elements there may be any number of rows or columns, which no level should count or have work
    // space for.
    const bool empty = problem.m == 0 || problem.n == 0;
    Problem served = as_read(problem);
    if (empty) served.m = served.n = served.k = 0;
    Launch launch = level.prepare(served, operands, device);
    if (launch.level != level.name) {
        throw Error(ErrorCode::unsupported, "level '" + std::string(level.name) +
                                                "' was asked for, and what was prepared names itself '" +
                                                std::string(launch.level) + "'");
    }
    if (empty) launch.run = [] {};
    return launch;
}

int parameter_value(std::span<const Parameter> parameters, const Problem& problem, std::string_view name) {
    if (const auto asked = problem.parameters.find(name); asked != problem.parameters.end())
        return asked->second;
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    if (found == parameters.end()) throw std::logic_error("no such parameter: " + std::string(name));
    return found->fallback;
}

int parameter_value(const Level& level, const Problem& problem, std::string_view name) {
    return parameter_value(level.parameters, problem, name);
}

}  // namespace gpumat
