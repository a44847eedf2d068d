#include "cli/options/manual_page.hpp"

#include <spdlog/fmt/fmt.h>

#include <cctype>
#include <sstream>

#include "cli/terminal/text.hpp"
#include "lib/record/version.hpp"

namespace gpumat::cli {
namespace {

/// Text in which roff finds nothing to act on.
std::string roff(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '\\') {
            escaped += "\\e";
        } else if (c == '-') {
            escaped += "\\-";
        } else if (c == '\'') {
            escaped += "\\(aq";
        } else {
            escaped += c;
        }
    }
    return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

std::string section(const std::string& title) {
    return ".SH " + title + "\n";
}

/// Lines as they stand.
std::string verbatim(const std::string& text) {
    std::string result = ".nf\n";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) result += (line.empty() ? "\\&" : roff(line)) + "\n";
    return result + ".fi\n";
}

/// A name and, indented below it, what it is.
std::string entry(const std::string& name, const std::string& text) {
    return ".TP\n" + name + "\n" + (text.empty() ? "\\&" : roff(text)) + "\n";
}

std::string bold(const std::string& text) {
    return "\\fB" + roff(text) + "\\fR";
}

std::string italic(const std::string& text) {
    return "\\fI" + roff(text) + "\\fR";
}

std::string synopsis(const CommandFacts& command) {
    std::string text = bold(command.path) + " [" + italic("OPTIONS") + "]";
    if (!command.commands.empty()) text += " " + italic("COMMAND") + " ...";
    for (const OptionFacts& option : command.options) {
        if (!option.positional) continue;
        const std::string name = italic(option.names.front()) + (option.many ? "..." : "");
        text += option.required ? " " + name : " [" + name + "]";
    }
    return section("SYNOPSIS") + text + "\n";
}

std::string option_entry(const OptionFacts& option) {
    std::string names;
    for (const std::string& name : option.names)
        names += (names.empty() ? "" : ", ") + (option.positional ? italic(name) : bold(name));
    if (!option.value.empty() && !option.positional) names += " " + italic(option.value);
    std::string text = option.help;
    const auto say = [&](const std::string& what) { text += (text.empty() ? "" : ". ") + what; };
    if (!option.values.empty()) say("Values: " + joined(option.values, ", "));
    if (!option.fallback.empty() && text.find("default") == std::string::npos)
        say("Default: " + option.fallback);
    if (option.required && !option.positional) say("Required");
    return entry(names, text);
}

std::string options(const CommandFacts& command) {
    std::string text;
    for (const bool positional : {true, false}) {
        std::string group;
        for (const OptionFacts& option : command.options) {
            if (option.positional != positional) continue;
            const std::string title = positional ? "Arguments" : option.group;
            if (title != group) text += ".SS " + roff(title) + "\n";
            group = title;
            text += option_entry(option);
        }
    }
    return text.empty() ? "" : section("OPTIONS") + text;
}

std::string commands(const CommandFacts& command) {
    std::string text;
    for (const CommandFacts& inner : command.commands)
        text += entry("\\fB" + roff(manual_name(inner)) + "\\fR(1)", inner.summary);
    return text.empty() ? "" : section("COMMANDS") + text;
}

std::string level_entry(const Level& level) {
    std::string text(level.summary);
    if (!level.removes.empty()) text += ". Removes: " + std::string(level.removes);
    for (const Parameter& parameter : level.parameters) {
        const std::vector<std::string> choices(parameter.choices.begin(), parameter.choices.end());
        text += fmt::format(". --{}: {}, one of {} (default: {})", parameter.name, parameter.help,
                            joined(choices, ", "), parameter.fallback);
    }
    const std::string number = level.role == Role::rung ? fmt::format(" ({})", level.number) : "";
    return entry(bold(std::string(level.name)) + number, text);
}

std::string levels(const Operation& operation, const Registry& registry) {
    std::string text = section("LEVELS");
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
        text += fmt::format(".SS On a {}\n", name_of(device));
        for (const Level* level : registry.levels(operation, device)) text += level_entry(*level);
    }
    return text;
}

std::string environment(const CommandFacts& command) {
    std::string text;
    for (const OptionFacts& option : command.options) {
        if (!option.environment.empty())
            text += entry(bold(option.environment),
                          "Default of " + option.names.back() + ", before what --config says");
    }
    return text.empty() ? "" : section("ENVIRONMENT") + text;
}

}  // namespace

std::string manual_name(const CommandFacts& command) {
    std::string name = command.path;
    for (char& c : name) c = c == ' ' ? '-' : c;
    return name;
}

std::string manual_page(const CommandFacts& command, const Registry& registry) {
    const std::string name = manual_name(command);
    std::string title;
    for (const char c : name) title += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    std::string text = fmt::format(".TH {} 1 \"\" \"gpumat {}\" \"gpumat manual\"\n", roff(title), version());
    text += section("NAME") + roff(name) + " \\- " + roff(command.summary) + "\n";
    text += synopsis(command) + commands(command) + options(command);
    const bool is_operation = command.path == "gpumat " + command.name;
    const Operation* operation = is_operation ? registry.operation(command.name) : nullptr;
    if (operation != nullptr) text += levels(*operation, registry);
    text += environment(command);
    if (!command.footer.empty()) text += section("NOTES") + verbatim(command.footer);
    if (command.path != command.name) text += section("SEE ALSO") + "\\fBgpumat\\fR(1)\n";
    return text;
}

}  // namespace gpumat::cli
