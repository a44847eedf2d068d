#include "cli/options/command.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <type_traits>

#include "cli/terminal/text.hpp"

namespace gpumat::cli {
namespace {

constexpr std::size_t kLongestChoice = 16;  ///< of values that stand in place of a name for them

std::string in_capitals(const std::string& name) {
    std::string text;
    for (const char c : name) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

template <class T>
constexpr bool kPrints = std::is_arithmetic_v<T> || std::is_same_v<T, std::string>;

/// What a variable holds.
std::string text_in(const Target& target) {
    return std::visit(
        [](const auto& at) -> std::string {
            using At = std::remove_cvref_t<decltype(at)>;
            if constexpr (std::is_pointer_v<At>) {
                if constexpr (kPrints<std::remove_pointer_t<At>>) {
                    std::ostringstream text;
                    text << *at;
                    return text.str();
                }
            }
            return "";
        },
        target);
}

template <class... Types>
bool holds(const Target& target) {
    return (std::holds_alternative<Types>(target) || ...);
}

std::vector<std::string> names_in(const std::string& text) {
    std::vector<std::string> names;
    std::istringstream parts(text);
    for (std::string name; std::getline(parts, name, ',');) names.push_back(name);
    return names;
}

}  // namespace

Option& Option::value(std::string name) {
    value_name = std::move(name);
    return *this;
}

Option& Option::choices(std::vector<std::string> all) {
    values = std::move(all);
    only_these = true;
    return *this;
}

Option& Option::suggests(std::vector<std::string> some) {
    values = std::move(some);
    return *this;
}

Option& Option::check(Check what_is_wrong) {
    checks.push_back(std::move(what_is_wrong));
    return *this;
}

Option& Option::required() {
    is_required = true;
    return *this;
}

Option& Option::shows_default() {
    return shows_default(text_in(target));
}

Option& Option::shows_default(std::string text) {
    fallback = std::move(text);
    return *this;
}

Option& Option::size() {
    is_size = true;
    return value("SIZE");
}

Option& Option::at_once() {
    is_at_once = true;
    return *this;
}

Option& Option::from_environment() {
    has_variable = true;
    return *this;
}

Option& Option::only_on_command_line() {
    configurable = false;
    return *this;
}

Option& Option::in_group(std::string title) {
    group = std::move(title);
    return *this;
}

Option& Option::answers(std::function<std::string()> text) {
    answer = std::move(text);
    return only_on_command_line();
}

Option& Option::needs(const Option& other) {
    needed.push_back(&other);
    return *this;
}

Option& Option::excludes(const Option& other) {
    excluded.push_back(&other);
    return *this;
}

std::string Option::long_name() const {
    const auto found =
        std::ranges::find_if(names, [](const std::string& name) { return name.starts_with("--"); });
    return found == names.end() ? "" : found->substr(2);
}

bool Option::many() const {
    return holds<std::vector<std::string>*, std::function<void(const std::vector<std::string>&)>>(target);
}

std::string Option::shown_value() const {
    if (flag) return "";
    if (!value_name.empty()) return value_name;
    if (holds<int*, std::uint64_t*, std::optional<int>*, std::optional<std::int64_t>*,
              std::optional<std::uint64_t>*>(target))
        return "N";
    if (holds<double*, std::optional<double>*>(target)) return "X";
    std::string choice = only_these ? joined(values, "|") : "";
    if (!choice.empty() && choice.size() <= kLongestChoice) return choice;
    return in_capitals(positional ? names.front() : long_name());
}

Command::Command(std::string command_name, std::string command_summary, Command* outer)
    : name(std::move(command_name)), summary(std::move(command_summary)), outer_(outer) {
    flag("-h,--help", {}, "print this help").in_group(kGeneralGroup).only_on_command_line();
}

Option& Command::add(const std::string& names, Target target, std::string help) {
    Option& option = options_.emplace_back();
    option.names = names_in(names);
    option.positional = !names.starts_with('-');
    option.target = std::move(target);
    option.help = std::move(help);
    option.group = group_;
    return option;
}

Option& Command::option(const std::string& names, Target target, std::string help) {
    return add(names, std::move(target), std::move(help));
}

Option& Command::flag(const std::string& names, Target target, std::string help) {
    Option& option = add(names, std::move(target), std::move(help));
    option.flag = true;
    return option;
}

Option& Command::list(const std::string& names, Target target, std::string help) {
    Option& option = add(names, std::move(target), std::move(help));
    option.is_list = true;
    return option;
}

Command& Command::command(std::string command_name, std::string command_summary) {
    return commands_.emplace_back(std::move(command_name), std::move(command_summary), this);
}

const Option* Command::find(const std::string& option_name) const {
    const auto found = std::ranges::find_if(options_, [&](const Option& option) {
        return !option.positional && std::ranges::find(option.names, option_name) != option.names.end();
    });
    return found == options_.end() ? nullptr : &*found;
}

}  // namespace gpumat::cli
