#include "cli/options/command_facts.hpp"

#include <algorithm>
#include <cctype>

#include "cli/options/common_options.hpp"
#include "cli/options/settings.hpp"

namespace gpumat::cli {
namespace {

constexpr std::size_t kLongestChoice = 16;  ///< of values that stand in place of a name for them

std::string in_capitals(const std::string& name) {
    std::string text;
    for (const char c : name) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

constexpr char kSuggestionsBegin = '<';
constexpr char kSuggestionsEnd = '>';

/// The values that a validator lists as CLI11 does: "TEXT:{full,none}".
std::vector<std::string> listed_values(const std::string& type_name, char opening, char closing) {
    const std::size_t begin = type_name.find(opening);
    const std::size_t end = type_name.find(closing);
    if (begin == std::string::npos || end == std::string::npos) return {};
    return CLI::detail::split(type_name.substr(begin + 1, end - begin - 1), ',');
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
    return CLI::detail::join(words, between);
}

/// What the option takes, in a word: as it was named, else N for a number, else its values where they are
/// few, else its name.
std::string value_name(const CLI::Option& option, const std::vector<std::string>& choices) {
    if (option.get_type_size() == 0 || option.get_expected_max() == 0) return "";
    const std::string type_name = option.get_type_name();
    std::string type = type_name.substr(0, type_name.find(':'));
    if (type == "INT" || type == "UINT") return "N";
    if (type == "FLOAT") return "X";
    if (type != "TEXT") return type;
    std::string choice = joined(choices, "|");
    if (!choice.empty() && choice.size() <= kLongestChoice) return choice;
    const auto& names = option.get_lnames();
    return in_capitals(names.empty() ? option.get_name(true) : names.front());
}

OptionFacts facts_of_option(const CLI::Option& option) {
    OptionFacts facts;
    facts.positional = option.get_positional();
    for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
    if (facts.positional) facts.names = {option.get_name(true)};
    facts.required = option.get_required();
    facts.many = option.get_expected_max() > 1;
    const std::vector<std::string> choices = listed_values(option.get_type_name(), '{', '}');
    facts.values =
        choices.empty() ? listed_values(option.get_type_name(), kSuggestionsBegin, kSuggestionsEnd) : choices;
    facts.value = value_name(option, choices);
    facts.is_file = facts.value == kReference || facts.value == kFile;
    facts.help = option.get_description();
    facts.fallback = option.get_default_str();
    facts.environment = environment_name(option);
    facts.group = option.get_group();
    return facts;
}

void add_options(const CLI::App& command, CommandFacts& facts) {
    for (const CLI::Option* option : command.get_options()) {
        if (option->get_group().empty()) continue;
        facts.options.push_back(facts_of_option(*option));
        if (option == command.get_help_ptr()) facts.options.back().group = kGeneralGroup;
    }
    std::vector<std::string> groups;
    for (const OptionFacts& option : facts.options) {
        if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
    }
    const auto place = [&](const OptionFacts& option) {
        return option.group == kGeneralGroup ? groups.end() : std::ranges::find(groups, option.group);
    };
    std::ranges::stable_sort(facts.options,
                             [&](const auto& x, const auto& y) { return place(x) < place(y); });
}

}  // namespace

CommandFacts facts_of(const CLI::App& command) {
    CommandFacts facts;
    facts.name = command.get_name();
    facts.path = facts.name;
    for (const CLI::App* outer = command.get_parent(); outer != nullptr; outer = outer->get_parent())
        facts.path = outer->get_name() + " " + facts.path;
    facts.summary = command.get_description();
    facts.footer = command.get_footer();
    add_options(command, facts);
    for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; })) {
        if (!inner->get_group().empty()) facts.commands.push_back(facts_of(*inner));
    }
    return facts;
}

void suggest_values(CLI::Option& option, const std::vector<std::string>& values) {
    option.check(CLI::Validator([](std::string&) { return std::string(); },
                                kSuggestionsBegin + joined(values, ",") + kSuggestionsEnd, "suggested"));
}

}  // namespace gpumat::cli
