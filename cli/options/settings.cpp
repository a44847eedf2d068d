#include "cli/options/settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "core/text/printable.hpp"
#include "core/text/suggestion.hpp"

namespace gpumat::cli {
namespace {

constexpr std::array<std::string_view, 11> kFromEnvironment = {
    "color", "config",       "device",  "device-memory-limit", "jobs",  "level",
    "log",   "memory-limit", "threads", "time-limit",          "verify"};
constexpr std::string_view kLog = "log";
constexpr std::uintmax_t kMostConfigBytes = 1U << 20U;

std::string long_name(const CLI::Option& option) {
    return option.get_lnames().empty() ? "" : option.get_lnames().front();
}

/// "GPUMAT_MEMORY_LIMIT" of "memory-limit".
std::string variable_of(std::string_view option_name) {
    std::string name = "GPUMAT_";
    for (const char c : option_name)
        name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

/// What a file gives to options.
using Items = std::vector<CLI::ConfigItem>;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
    throw Error(ErrorCode::usage, path + ": " + why);
}

/// Whether a line opens a quote and does not close it. Quotes open where a word begins, and what follows a #
/// is a comment also within quotes, as CLI11 reads them.
bool leaves_quote_open(std::string line) {
    CLI::detail::trim(line);
    if (line.starts_with(';')) return false;
    line = line.substr(0, line.find('#'));
    for (std::size_t at = 0; at < line.size(); ++at) {
        const bool word = at == 0 || std::string_view(" \t=,[").find(line[at - 1]) != std::string_view::npos;
        if (!word || (line[at] != '"' && line[at] != '\'')) continue;
        at = line.find(line[at], at + 1);
        if (at == std::string::npos) return true;
    }
    return false;
}

void require_closed_quotes(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
        if (!leaves_quote_open(line)) continue;
        const bool comment = line.find('#') != std::string::npos;
        refuse(path + ":" + std::to_string(number), "a quote is not closed" +
                                                        std::string(comment ? " before the comment" : "") +
                                                        ": " + printable(line));
    }
}

/// CLI11's own format, a part of TOML: `key = value` under [command].
Items read_items(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
        refuse(path, "is no file; expected a configuration for --config");
    if (std::filesystem::file_size(path, error) > kMostConfigBytes)
        refuse(path, "is larger than a configuration can be (1 MiB)");
    require_closed_quotes(path);
    Items items;
    try {
        items = CLI::ConfigTOML().from_file(path);
    } catch (const std::exception& failure) {  // CLI11 and the standard library, on what is no configuration
        refuse(path, "cannot be read as a configuration: " + std::string(failure.what()));
    }
    std::erase_if(items, [](const CLI::ConfigItem& item) { return item.name == "++" || item.name == "--"; });
    return items;
}

/// "verify.transpose".
std::string section_of(const CLI::ConfigItem& item) {
    return CLI::detail::join(item.parents, ".");
}

std::vector<std::string> path_of(const CLI::App& command) {
    std::vector<std::string> path;
    for (const CLI::App* app = &command; app->get_parent() != nullptr; app = app->get_parent())
        path.insert(path.begin(), app->get_name());
    return path;
}

bool may_be_configured(const CLI::Option& option) {
    return option.get_configurable() && !long_name(option).empty();
}

/// The names of the options of a command and of those inside of it.
void collect_names(const CLI::App& command, std::vector<std::string>& names) {
    for (const CLI::Option* option : command.get_options()) {
        if (may_be_configured(*option)) names.push_back(long_name(*option));
    }
    for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; }))
        collect_names(*inner, names);
}

/// The command that a section speaks of; null where there is none.
const CLI::App* command_of(const CLI::App& root, const CLI::ConfigItem& item) {
    const CLI::App* command = &root;
    for (const std::string& name : item.parents) {
        const auto found =
            command->get_subcommands([&](const CLI::App* inner) { return inner->get_name() == name; });
        if (found.empty()) return nullptr;
        command = found.front();
    }
    return command;
}

const CLI::App& root_of(const CLI::App& command) {
    return command.get_parent() == nullptr ? command : root_of(*command.get_parent());
}

/// Whether the command line says it before the command: gpumat --color never levels.
bool given_before(const CLI::App& command, const std::string& name) {
    const CLI::Option* option = root_of(command).get_option_no_throw("--" + name);
    return option != nullptr && option->count() > 0;
}

/// `whole_tool`: all commands are there, so that what none of them knows is wrong.
void require_known(const Items& items, const CLI::App& root, const std::string& path, bool whole_tool) {
    for (const CLI::ConfigItem& item : items) {
        const CLI::App* command = command_of(root, item);
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
const CLI::ConfigItem* item_for(const Items& items, const std::vector<std::string>& path,
                                const std::string& name) {
    const CLI::ConfigItem* best = nullptr;
    for (const CLI::ConfigItem& item : items) {
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

/// Gives an option another default; `where` names its origin in errors.
void set_default(CLI::Option& option, const std::string& value, const std::string& where) {
    try {
        const bool at_once = option.get_trigger_on_parse();  // which CLI11 does not do for defaults
        option.trigger_on_parse(false)->run_callback_for_default()->default_val(value);
        option.trigger_on_parse(at_once);
    } catch (const CLI::ParseError& failure) {
        throw Error(ErrorCode::usage, where + ": " + failure.what());
    }
}

std::string value_of(const CLI::ConfigItem& item, const CLI::Option& option, const std::string& where) {
    const bool list = option.get_expected_max() > 1;
    if (item.inputs.size() == 1 || list) return CLI::detail::join(item.inputs, ",");
    throw Error(ErrorCode::usage, where + ": expected one value; quote one that has spaces or commas");
}

std::optional<std::string> from_environment(const CLI::Option& option) {
    const std::string name = environment_name(option);
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return {};
    return value;
}

void apply(CLI::App& command, const Items& items, const std::string& path, bool as_job) {
    for (CLI::Option* option : command.get_options()) {
        const std::string name = long_name(*option);
        if (!may_be_configured(*option) || (as_job && name == kLog) || given_before(command, name)) continue;
        if (const auto value = from_environment(*option)) {
            set_default(*option, *value, environment_name(*option));
        } else if (const CLI::ConfigItem* item = item_for(items, path_of(command), name)) {
            const std::string where = path + ": " + name;
            set_default(*option, value_of(*item, *option, where), where);
        }
    }
}

}  // namespace

std::vector<std::string> environment_names() {
    std::vector<std::string> names;
    for (const std::string_view option : kFromEnvironment) names.push_back(variable_of(option));
    return names;
}

std::string environment_name(const CLI::Option& option) {
    const std::string name = long_name(option);
    const bool listed = std::ranges::find(kFromEnvironment, name) != kFromEnvironment.end();
    return listed ? variable_of(name) : "";
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

void use_settings(CLI::App& command, const std::string& path, bool as_job) {
    const auto inner = command.get_subcommands([](CLI::App*) { return true; });
    for (CLI::App* each : inner) use_settings(*each, path, as_job);
    if (!inner.empty()) return;
    command.preparse_callback([&command, path, as_job](std::size_t) {
        const Items items = path.empty() ? Items() : read_items(path);
        require_known(items, root_of(command), path, !as_job);
        apply(command, items, path, as_job);
    });
}

}  // namespace gpumat::cli
