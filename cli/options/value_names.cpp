#include "cli/options/value_names.hpp"

#include <algorithm>

#include "formats/registry.hpp"
#include "lib/engines/engine.hpp"

namespace gpumat::cli {
namespace {

void add_new_name(std::vector<std::string>& names, std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
}

}  // namespace

std::vector<std::string> type_names() {
    std::vector<std::string> names;
    for (const Type type : all_types()) names.emplace_back(name_of(type));
    return names;
}

std::vector<std::string> format_names() {
    std::vector<std::string> names;
    for (const formats::Format& format : formats::all_formats()) names.emplace_back(format.name);
    return names;
}

std::vector<std::string> engine_names() {
    std::vector<std::string> names;
    for (const engines::Engine& engine : engines::engines()) names.emplace_back(engine.name);
    return names;
}

std::vector<std::string> level_names(const Registry& registry, const Operation* operation) {
    std::vector<std::string> names = {"auto"};
    for (const Level& level : registry.levels()) {
        const bool asked = operation == nullptr || level.operation == operation;
        if (asked && level.role != Role::baseline) add_new_name(names, level.name);
    }
    for (const Operation* one : registry.operations()) {
        if (operation != nullptr && one != operation) continue;
        for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu})
            for (const Level* level : registry.sparse_levels(*one, device)) add_new_name(names, level->name);
    }
    return names;
}

std::vector<std::string> parameter_choices(const Registry& registry, const Operation* operation,
                                           std::string_view parameter) {
    std::vector<std::string> choices;
    for (const Level& level : registry.levels()) {
        if (operation != nullptr && level.operation != operation) continue;
        for (const Parameter& one : level.parameters) {
            if (one.name != parameter) continue;
            for (const std::string_view choice : one.choices) add_new_name(choices, choice);
        }
    }
    return choices;
}

}  // namespace gpumat::cli
