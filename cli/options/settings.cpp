#include "cli/options/settings.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "cli/options/config_file.hpp"
#include "cli/terminal/text.hpp"
#include "core/error.hpp"
#include "core/text/printable.hpp"
#include "core/text/suggestion.hpp"

namespace gpumat::cli {
namespace {

constexpr std::string_view kLog = "log";

/// "GPUMAT_MEMORY_LIMIT" of "memory-limit".
std::string variable_of(std::string_view option_name) {
    std::string name = "GPUMAT_";
    for (const char c : option_name)
        name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

/// What a file gives to options.
using Items = std::vector<ConfigItem>;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
    throw Error(ErrorCode::usage, path + ": " + why);
}

/// "verify.transpose".
std::string section_of(const ConfigItem& item) {
    return joined(item.parents, ".");
}

/// The names of the commands on the way to this one, without the tool's.
std::vector<std::string> names_down_to(const Command& command) {
    if (command.outer() == nullptr) return {};
    std::vector<std::string> names = names_down_to(*command.outer());
    names.push_back(command.name);
    return names;
}

bool may_be_configured(const Option& option) {
    return option.configurable && !option.long_name().empty();
}

/// The names of the options of a command and of those inside of it.
void collect_names(const Command& command, std::vector<std::string>& names) {
    for (const Option& option : command.options()) {
        if (may_be_configured(option)) names.push_back(option.long_name());
    }
    for (const Command& inner : command.commands()) collect_names(inner, names);
}

/// The command that a section speaks of; null where there is none.
const Command* command_of(const Command& root, const ConfigItem& item) {
    const Command* command = &root;
    for (const std::string& name : item.parents) {
        const auto found = std::ranges::find(command->commands(), name, &Command::name);
        if (found == command->commands().end()) return nullptr;
        command = &*found;
    }
    return command;
}

const Command& root_of(const Command& command) {
    return command.outer() == nullptr ? command : root_of(*command.outer());
}

/// `whole_tool`: all commands are there, so that what none of them knows is wrong.
void require_known(const Items& items, const Command& root, const std::string& path, bool whole_tool) {
    for (const ConfigItem& item : items) {
        const Command* command = command_of(root, item);
        if (!whole_tool && (command == nullptr || command == &root)) continue;
        if (command == nullptr)
            refuse(path, "[" + printable(section_of(item)) + "] is the name of no command");
        std::vector<std::string> names;
        collect_names(*command, names);
        if (std::ranges::find(names, item.name) != names.end()) continue;
        refuse(path, "'" + printable(item.name) + "' is no option " +
                         (item.parents.empty() ? "of any command" : "of '" + section_of(item) + "'") +
                         " that can be set here" + suggestion(item.name, names));
    }
}

/// The item for an option of the command at `path`: of the innermost section that names it, and the last one
/// there.
const ConfigItem* item_for(const Items& items, const std::vector<std::string>& path,
                           const std::string& name) {
    const ConfigItem* best = nullptr;
    for (const ConfigItem& item : items) {
        const bool around =
            item.parents.size() <= path.size() &&
            std::ranges::equal(
                item.parents,
                std::vector(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(item.parents.size())));
        if (item.name != name || !around) continue;
        if (best == nullptr || item.parents.size() >= best->parents.size()) best = &item;
    }
    return best;
}

std::string value_of(const ConfigItem& item, const Option& option, const std::string& where) {
    if (item.inputs.size() == 1 || option.many()) return joined(item.inputs, ",");
    throw Error(ErrorCode::usage, where + ": expected one value; quote one that has spaces or commas");
}

std::optional<std::string> from_environment(const Option& option) {
    const std::string name = environment_name(option);
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return {};
    return value;
}

void collect_variables(const Command& command, std::vector<std::string>& names) {
    for (const Option& option : command.options()) {
        if (option.has_variable) names.push_back(environment_name(option));
    }
    for (const Command& inner : command.commands()) collect_variables(inner, names);
}

}  // namespace

std::vector<std::string> environment_names(const Command& tool) {
    std::vector<std::string> names;
    collect_variables(tool, names);
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

std::string environment_name(const Option& option) {
    return option.has_variable ? variable_of(option.long_name()) : "";
}

std::string config_path(const std::vector<std::string>& command_line) {
    constexpr std::string_view kOption = "--config";
    for (std::size_t i = 0; i < command_line.size() && command_line[i] != "--"; ++i) {
        const std::string& word = command_line[i];
        if (word == kOption && i + 1 < command_line.size()) return command_line[i + 1];
        if (word.starts_with(std::string(kOption) + "=")) return word.substr(kOption.size() + 1);
    }
    const char* path = std::getenv("GPUMAT_CONFIG");
    return path == nullptr ? "" : path;
}

void for_each_default(Command& command, const std::string& path, bool as_job,
                      const std::function<bool(const Option&)>& given_before, const GiveDefault& give) {
    const Items items = path.empty() ? Items() : read_items(path);
    require_known(items, root_of(command), path, !as_job);
    const std::vector<std::string> names = names_down_to(command);
    for (Option& option : command.options()) {
        const std::string name = option.long_name();
        if (!may_be_configured(option) || (as_job && name == kLog) || given_before(option)) continue;
        if (const auto value = from_environment(option)) {
            give(option, *value, environment_name(option));
        } else if (const ConfigItem* item = item_for(items, names, name)) {
            const std::string where = path + ": " + name;
            give(option, value_of(*item, option, where), where);
        }
    }
}

}  // namespace gpumat::cli
