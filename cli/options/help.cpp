#include "cli/options/help.hpp"

#include "cli/options/command_facts.hpp"
#include "cli/terminal/text.hpp"

namespace gpumat::cli {
namespace {

constexpr std::size_t kHelpColumn = 25;  ///< where the right column of options and commands begins

std::string row(const std::string& name, const std::string& help) {
    return two_columns("  " + name, help, kHelpColumn);
}

std::string name_of_option(const OptionFacts& option) {
    if (option.positional) return option.names.front() + (option.many ? " ..." : "");
    std::string text = option.names.front().starts_with("--") ? "    " : "";
    text += joined(option.names, ", ");
    return option.value.empty() ? text : text + " " + option.value;
}

std::string help_of_option(const OptionFacts& option) {
    const bool tells = !option.fallback.empty() && option.help.find("default") == std::string::npos;
    return option.help + (tells ? " [" + option.fallback + "]" : "") +
           (option.required && !option.positional ? " (required)" : "");
}

std::string usage(const CommandFacts& command) {
    std::string text = "Usage: " + command.path;
    text += command.commands.empty() ? " [OPTIONS]" : " [OPTIONS] COMMAND ...";
    for (const OptionFacts& option : command.options) {
        if (!option.positional) continue;
        const std::string name = option.names.front() + (option.many ? "..." : "");
        text += option.required ? " " + name : " [" + name + "]";
    }
    return text + "\n";
}

std::string options_text(const CommandFacts& command) {
    std::string positions;
    std::string others;
    std::string group;
    for (const OptionFacts& option : command.options) {
        const std::string line = row(name_of_option(option), help_of_option(option));
        if (option.positional) {
            positions += line;
            continue;
        }
        if (option.group != group) others += "\n" + option.group + ":\n";
        group = option.group;
        others += line;
    }
    return (positions.empty() ? "" : "\n" + positions) + others;
}

std::string commands_text(const CommandFacts& command) {
    std::string text;
    for (const CommandFacts& inner : command.commands) text += row(inner.name, inner.summary);
    return text.empty() ? "" : "\nCommands:\n" + text;
}

}  // namespace

std::string help_text(const Command& command) {
    const CommandFacts facts = facts_of(command);
    std::string text = usage(facts) + "\n";
    for (const std::string& line : wrapped(facts.summary, kLineWidth)) text += line + "\n";
    text += commands_text(facts) + options_text(facts);
    return facts.footer.empty() ? text : text + "\n" + facts.footer + "\n";
}

}  // namespace gpumat::cli
