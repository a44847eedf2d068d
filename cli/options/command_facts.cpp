#include "cli/options/command_facts.hpp"

#include <algorithm>

#include "cli/options/common_options.hpp"
#include "cli/options/settings.hpp"

namespace gpumat::cli {
namespace {

OptionFacts facts_of_option(const Option& option) {
    OptionFacts facts;
    facts.names = option.names;
    facts.positional = option.positional;
    facts.required = option.is_required;
    facts.many = option.many();
    facts.value = option.shown_value();
    facts.is_file = facts.value == kReference || facts.value == kFile;
    facts.values = option.values;
    facts.help = option.help;
    facts.fallback = option.fallback;
    facts.environment = environment_name(option);
    facts.group = option.group;
    return facts;
}

void add_options(const Command& command, CommandFacts& facts) {
    for (const Option& option : command.options()) facts.options.push_back(facts_of_option(option));
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

CommandFacts facts_of(const Command& command) {
    CommandFacts facts;
    facts.name = command.name;
    facts.path = command.path();
    facts.summary = command.summary;
    facts.footer = command.footer;
    add_options(command, facts);
    for (const Command& inner : command.commands()) {
        if (!inner.hidden) facts.commands.push_back(facts_of(inner));
    }
    return facts;
}

}  // namespace gpumat::cli
