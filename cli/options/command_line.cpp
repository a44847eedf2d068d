#include "cli/options/command_line.hpp"

#include <algorithm>

#include "core/text/suggestion.hpp"

namespace gpumat::cli {
namespace {

/// Stands before "-:/A", a dataset of standard input, while CLI11 parses: it would take that for an option.
constexpr char kNoOption = '\x01';

bool is_dataset_of_stream(const std::string& word) {
    return word.starts_with("-:/");
}

std::string protect(const std::string& word) {
    return is_dataset_of_stream(word) ? kNoOption + word : word;
}

std::string unprotect(const std::string& word) {
    return word.starts_with(kNoOption + std::string("-:/")) ? word.substr(1) : word;
}

std::vector<CLI::App*> inner_commands(CLI::App& command) {
    return command.get_subcommands([](CLI::App*) { return true; });
}

void unprotect_values(CLI::App& command) {
    for (CLI::Option* option : command.get_options()) option->transform(unprotect);
    for (CLI::App* inner : inner_commands(command)) unprotect_values(*inner);
}

std::vector<const CLI::App*> inner_commands(const CLI::App& command) {
    return command.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> unknown_words(const CLI::App& command) {
    std::vector<std::string> words;
    for (const std::string& word : command.remaining()) {
        if (word != "--") words.push_back(unprotect(word));
    }
    return words;
}

/// Where the word is like an option or a command that there is.
std::string suggestion_for(const CLI::App& command, const std::string& unknown) {
    const std::string word = unknown.substr(0, unknown.find('='));
    std::vector<std::string> known;
    if (word.starts_with("--")) {
        for (const CLI::Option* option : command.get_options()) {
            for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
        }
    } else {
        for (const CLI::App* inner : inner_commands(command)) known.push_back(inner->get_name());
    }
    return suggestion(word, known);
}

std::string what_is_wrong(const CLI::App& command, const CLI::ParseError& error) {
    const std::vector<std::string> unknown = unknown_words(command);
    if (unknown.empty()) return error.what();
    const bool no_command = !inner_commands(command).empty() && !unknown.front().starts_with('-');
    const std::vector<std::string> last_first(unknown.rbegin(), unknown.rend());
    return (no_command ? "there is no command '" + unknown.front() + "'"
                       : std::string(CLI::ExtrasError(last_first).what())) +
           suggestion_for(command, unknown.front());
}

}  // namespace

void parse_words(CLI::App& app, const std::vector<std::string>& words) {
    if (std::ranges::any_of(words, is_dataset_of_stream)) unprotect_values(app);
    std::vector<std::string> arguments;  // the last one first
    for (std::size_t i = words.size(); i-- > 1;) arguments.push_back(protect(words[i]));
    app.parse(std::move(arguments));
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
    const CLI::App* command = &app;
    std::string name = app.get_name();
    for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = command->get_subcommands()) {
        command = chosen.front();
        name += " " + command->get_name();
    }
    return what_is_wrong(*command, error) + " (see: " + name + " --help)";
}

}  // namespace gpumat::cli
