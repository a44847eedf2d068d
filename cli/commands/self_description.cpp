// The commands that describe the tool to shells and to man. `manpage` is for packages, and hidden in
// the help.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands/version.hpp"
#include "cli/options/command_facts.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/completion_script.hpp"
#include "cli/options/help.hpp"
#include "cli/options/manual_page.hpp"
#include "cli/terminal/context.hpp"
#include "core/error.hpp"
#include "core/text/suggestion.hpp"

namespace gpumat::cli {
namespace {

struct Shell {
    const char* name;
    std::string (*script)(const CommandFacts& tool);
};
constexpr std::array kShells = {Shell{"bash", bash_completion}, Shell{"zsh", zsh_completion},
                                Shell{"fish", fish_completion}};

void print_completion(const Command& tool, const std::string& name) {
    const auto* shell =
        std::ranges::find(kShells, name, [](const Shell& known) { return std::string(known.name); });
    std::fputs(shell->script(facts_of(tool)).c_str(), stdout);
}

void write_pages(const CommandFacts& command, const Registry& registry, const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / (manual_name(command) + ".1");
    std::ofstream file(path);
    file << manual_page(command, registry) << std::flush;
    if (!file) throw Error(ErrorCode::output, path.string() + ": cannot be written");
    for (const CommandFacts& inner : command.commands) write_pages(inner, registry, folder);
}

/// The command of that path, "gpumat verify transpose".
const CommandFacts& find_command(const CommandFacts& tool, const std::vector<std::string>& names) {
    const CommandFacts* found = &tool;
    for (const std::string& name : names) {
        const auto inner = std::ranges::find(found->commands, name, &CommandFacts::name);
        if (inner == found->commands.end())
            throw Error(ErrorCode::usage, "there is no command '" + name + "'");
        found = &*inner;
    }
    return *found;
}

const Command& inner_command(const Command& command, const std::string& name) {
    const auto found = std::ranges::find(command.commands(), name, &Command::name);
    if (found != command.commands().end()) return *found;
    std::vector<std::string> known;
    for (const Command& inner : command.commands()) known.push_back(inner.name);
    throw Error(ErrorCode::usage, "there is no command '" + name + "'" + suggestion(name, known));
}

}  // namespace

void add_help(Command& tool, Context& /*context*/) {
    Command& command = tool.command("help", "print the help of gpumat or of one of its commands");
    auto names = std::make_shared<std::vector<std::string>>();
    std::vector<std::string> known;
    for (const Command& inner : tool.commands())
        if (!inner.hidden) known.push_back(inner.name);
    command.option("command", names.get(), "the command, such as: verify transpose").suggests(known);
    command.footer = "Examples:\n  gpumat help\n  gpumat help verify transpose";
    command.run = [&tool, names] {
        const Command* found = &tool;
        for (const std::string& name : *names) found = &inner_command(*found, name);
        std::fputs(help_text(*found).c_str(), stdout);
    };
}

void add_version(Command& tool, Context& context) {
    Command& command = tool.command("version", "print the version and what this build is made of");
    command.footer = "Examples:\n  gpumat version";
    command.run = [&context] { std::puts(version_text(context.registry()).c_str()); };
}

void add_completion(Command& tool, Context& /*context*/) {
    Command& command = tool.command("completion", "print the script with which a shell completes gpumat");
    auto shell = std::make_shared<std::string>();
    std::vector<std::string> names;
    for (const Shell& known : kShells) names.emplace_back(known.name);
    command.option("shell", shell.get(), "bash, zsh or fish").required().choices(names);
    command.footer = "Examples:\n  source <(gpumat completion bash)";
    command.run = [&tool, shell] { print_completion(tool, *shell); };
}

void add_manpage(Command& tool, Context& context) {
    Command& command = tool.command("manpage", "print the manual page of gpumat or of one of its commands");
    struct Request {
        std::vector<std::string> names;
        std::string folder;
    };
    auto request = std::make_shared<Request>();
    command.begin_group("Pages");
    command.option("command", &request->names, "the command, such as: verify transpose");
    command.option("--to", &request->folder, "existing folder for the pages of all commands").value(kFile);
    command.hidden = true;
    command.footer = "Examples:\n  gpumat manpage transpose | man -l -";
    command.run = [&tool, &context, request] {
        const CommandFacts facts = facts_of(tool);
        if (!request->folder.empty()) return write_pages(facts, context.registry(), request->folder);
        std::fputs(manual_page(find_command(facts, request->names), context.registry()).c_str(), stdout);
    };
}

}  // namespace gpumat::cli
