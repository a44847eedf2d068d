// The one source in which rows become options of CLI11.
#include "cli/options/parser.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cli/options/help.hpp"
#include "cli/options/settings.hpp"
#include "cli/terminal/text.hpp"
#include "core/error.hpp"
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

/// Takes a number with a point from before a unit, of which one is left. Nothing, and no change, where there
/// is no such number.
std::optional<double> fraction_before_unit(std::string& text) {
    const std::size_t unit = text.find_first_not_of("0123456789.");
    if (unit == std::string::npos || text.find('.') >= unit) return std::nullopt;
    double number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + unit, number, std::chars_format::fixed);
    if (error != std::errc{} || end != text.data() + unit) return std::nullopt;
    text.replace(0, unit, "1");
    return number;
}

/// Bytes from a number or a number with a unit, as messages say them: of a part of a unit the next whole
/// byte. CLI11 wraps negative ones, and knows whole numbers alone.
std::string bytes_of(std::string text) {
    const std::string given = text;
    const auto refuse = [&given] {
        throw CLI::ValidationError("is '" + given + "'; expected a size, such as 4GiB");
    };
    if (text.find_first_of("+-") != std::string::npos) refuse();
    const auto fraction = fraction_before_unit(text);
    try {
        if (!CLI::AsSizeValue(false)(text).empty()) refuse();
    } catch (const CLI::ValidationError&) {
        refuse();
    }
    if (!fraction) return text;
    const double bytes = std::ceil(*fraction * std::stod(text));
    if (bytes >= 0x1p63) refuse();
    return std::to_string(static_cast<std::uint64_t>(bytes));
}

/// A member of a list; one that is like it is named.
Check one_of(const std::vector<std::string>& values) {
    return [values](const std::string& text) {
        if (std::ranges::find(values, text) != values.end()) return std::string();
        return "is '" + text + "'; expected " + (values.size() > 1 ? "one of " : "") + joined(values, ", ") +
               suggestion(text, values);
    };
}

template <class T>
Check within(const std::pair<T, T>& range) {
    return [range](const std::string& text) {
        T value{};
        if (CLI::detail::lexical_cast(text, value) && value >= range.first && value <= range.second)
            return std::string();
        std::ostringstream expected;
        expected << "is '" << text << "'; expected a number from " << range.first << " to " << range.second;
        return expected.str();
    };
}

CLI::Option* add_flag(CLI::App& app, const std::string& names, const Option& row) {
    if (row.answer) {
        return app.add_flag_callback(
            names, [&row] { throw CLI::CallForVersion(row.answer(), 0); }, row.help);
    }
    if (auto* const* at = std::get_if<bool*>(&row.target)) return app.add_flag(names, **at, row.help);
    if (const auto* count = std::get_if<std::function<void(std::int64_t)>>(&row.target))
        return app.add_flag_function(names, *count, row.help);
    return app.add_flag_callback(names, std::get<std::function<void()>>(row.target), row.help);
}

CLI::Option* add_value(CLI::App& app, const std::string& names, const Option& row) {
    return std::visit(
        [&](const auto& target) -> CLI::Option* {
            using To = std::remove_cvref_t<decltype(target)>;
            if constexpr (std::is_pointer_v<To>) {
                return app.add_option(names, *target, row.help);
            } else if constexpr (std::is_same_v<To, std::function<void(const std::string&)>>) {
                return app.add_option_function<std::string>(names, target, row.help);
            } else if constexpr (std::is_same_v<To, std::function<void(const std::vector<std::string>&)>>) {
                return app.add_option_function<std::vector<std::string>>(names, target, row.help);
            } else {  // it only has to be known
                return app.add_option(names, CLI::callback_t(), row.help);
            }
        },
        row.target);
}

void add_checks(CLI::Option& option, const Option& row) {
    if (row.only_these) option.check(one_of(row.values));
    std::visit(
        [&](const auto& range) {
            if constexpr (!std::is_same_v<decltype(range), const std::monostate&>)
                option.check(within(range));
        },
        row.range);
    for (const Check& check : row.checks) option.check(check);
    // What is added last runs first.
    if (row.is_size) option.transform(bytes_of);
}

CLI::Option* add_row(CLI::App& app, const Option& row) {
    const std::string names = joined(row.names, ",");
    if (row.flag) return add_flag(app, names, row);
    CLI::Option* option = add_value(app, names, row);
    if (!row.value_name.empty()) option->type_name(row.value_name);
    if (row.is_list) option->delimiter(',')->allow_extra_args(false);
    option->required(row.is_required)->default_str(row.fallback)->trigger_on_parse(row.is_at_once);
    add_checks(*option, row);
    return option;
}

template <class App>
std::vector<App*> inner_commands(App& command) {
    return command.get_subcommands([](const CLI::App*) { return true; });
}

void unprotect_values(CLI::App& command) {
    for (CLI::Option* option : command.get_options()) option->transform(unprotect);
    for (CLI::App* inner : inner_commands<CLI::App>(command)) unprotect_values(*inner);
}

std::vector<std::string> unknown_words(const CLI::App& command) {
    std::vector<std::string> words;
    for (const std::string& word : command.remaining()) {
        if (word != "--") words.push_back(unprotect(word));
    }
    return words;
}

/// Where the word is like an option or a command that there is.
std::string suggestion_for(const Command& command, const std::string& unknown) {
    const std::string word = unknown.substr(0, unknown.find('='));
    std::vector<std::string> known;
    if (word.starts_with("--")) {
        for (const Option& option : command.options()) {
            if (!option.long_name().empty()) known.push_back("--" + option.long_name());
        }
    } else {
        for (const Command& inner : command.commands()) known.push_back(inner.name);
    }
    return suggestion(word, known);
}

/// A name too many is what most tools take for the output.
std::string meant_output(const Command& command, const std::vector<std::string>& unknown) {
    const bool is_one = unknown.size() == 1 && !unknown.front().starts_with('-');
    return is_one && command.find("--output") != nullptr
               ? "; to write " + unknown.front() + ", give -o " + unknown.front()
               : "";
}

std::vector<std::string> names_of_commands(const Command& command) {
    std::vector<std::string> names;
    for (const Command& inner : command.commands())
        if (!inner.hidden) names.push_back(inner.name);
    return names;
}

/// What CLI11 found, in words of ours: it names the option first, and knows neither what it takes nor how
/// often.
std::string what_was_found(const Command& command, const CLI::ParseError& error) {
    std::string text = error.what();
    const std::string name = text.substr(0, text.find(':'));
    const Option* option = command.find(name);
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && command.requires_command)
        return "there is no command; expected one of " + joined(names_of_commands(command), ", ");
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && option != nullptr) {
        return text.find("received") == std::string::npos
                   ? name + " is without its value; expected " + name + " " + option->shown_value()
                   : name + " is given more than once";
    }
    if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
        constexpr std::string_view kBegin = "Could not convert: ";
        const std::size_t equals = text.find(" = ");
        if (text.starts_with(kBegin) && equals != std::string::npos) {
            const std::string which = text.substr(kBegin.size(), equals - kBegin.size());
            const Option* converted = command.find(which);
            const bool flag = converted != nullptr && converted->flag;
            return which + " is '" + text.substr(equals + 3) + "'; expected " +
                   (flag ? "no value" : "a number");
        }
    }
    return text;
}

std::string what_is_wrong(const CLI::App& app, const Command& command, const CLI::ParseError& error) {
    const std::vector<std::string> unknown = unknown_words(app);
    if (unknown.empty()) return what_was_found(command, error);
    const bool no_command = !command.commands().empty() && !unknown.front().starts_with('-');
    return (no_command ? "there is no command '" + unknown.front() + "'"
                       : "not expected: " + joined(unknown, " ")) +
           suggestion_for(command, unknown.front()) + meant_output(command, unknown);
}

}  // namespace

struct Parser::Parts {
    Command& tool;
    std::string configuration;
    bool as_job;
    CLI::App app;
    std::map<const Option*, CLI::Option*> options;

    Parts(Command& whole, std::string path, bool is_job)
        : tool(whole), configuration(std::move(path)), as_job(is_job), app("", whole.name) {
        add(app, tool);
    }

    void add(CLI::App& to, Command& command) {
        to.set_help_flag();
        for (const Option& row : command.options()) options[&row] = add_option(to, command, row);
        for (const Option& row : command.options()) {
            for (const Option* other : row.needed) options[&row]->needs(options[other]);
            for (const Option* other : row.excluded) options[&row]->excludes(options[other]);
        }
        if (command.requires_command) to.require_subcommand(1);
        for (Command& inner : command.commands()) add(*to.add_subcommand(inner.name), inner);
        if (!command.commands().empty()) return;
        to.preparse_callback([this, &command](std::size_t) { use_settings(command); });
        if (!command.when_parsed) return;
        to.parse_complete_callback([&command] {
            const std::string wrong = command.when_parsed();
            if (!wrong.empty()) throw CLI::ValidationError(wrong);
        });
    }

    static CLI::Option* add_option(CLI::App& to, const Command& command, const Option& row) {
        if (&row != &command.options().front()) return add_row(to, row);
        return to.set_help_flag(joined(row.names, ","), row.help);  // each command's first one
    }

    void use_settings(Command& command) {
        const auto given_before = [this](const Option& option) {
            const Option* same = tool.find("--" + option.long_name());
            return same != nullptr && options.at(same)->count() > 0;
        };
        for_each_default(command, configuration, as_job, given_before,
                         [this](Option& row, const std::string& value, const std::string& where) {
                             set_default(row, value, where);
                         });
    }

    /// Gives an option another default; `where` names its origin in errors.
    void set_default(Option& row, const std::string& value, const std::string& where) {
        CLI::Option& option = *options.at(&row);
        try {
            // CLI11 does not take defaults at once.
            option.trigger_on_parse(false)->run_callback_for_default()->default_val(value);
            option.trigger_on_parse(row.is_at_once);
            row.fallback = value;
            row.origin = where;
        } catch (const CLI::ParseError& failure) {
            throw Error(ErrorCode::usage, where + ": " + failure.what());
        }
    }

    /// The innermost command that was named.
    std::pair<CLI::App*, Command*> chosen() {
        std::pair<CLI::App*, Command*> found = {&app, &tool};
        for (auto inner = app.get_subcommands(); !inner.empty(); inner = found.first->get_subcommands()) {
            const std::string name = inner.front()->get_name();
            found = {inner.front(), &*std::ranges::find(found.second->commands(), name, &Command::name)};
        }
        return found;
    }
};

Parser::Parser(Command& tool, std::string configuration, bool as_job)
    : parts_(std::make_unique<Parts>(tool, std::move(configuration), as_job)) {}

Parser::~Parser() = default;

Asked Parser::parse(const std::vector<std::string>& words) {
    if (std::ranges::any_of(words, is_dataset_of_stream)) unprotect_values(parts_->app);
    std::vector<std::string> arguments;  // the last one first
    for (std::size_t i = words.size(); i-- > 1;) arguments.push_back(protect(words[i]));
    try {
        parts_->app.parse(std::move(arguments));
        return {parts_->chosen().second, ""};
    } catch (const CLI::CallForHelp&) {
        Command& command = *parts_->chosen().second;
        return {&command, help_text(command)};
    } catch (const CLI::CallForVersion& version) {
        return {parts_->chosen().second, std::string(version.what()) + "\n"};
    } catch (const CLI::ParseError& error) {
        const auto [app, command] = parts_->chosen();
        throw Error(ErrorCode::usage,
                    what_is_wrong(*app, *command, error) + " (see: " + command->path() + " --help)");
    }
}

Error Parser::with_origins(const Command& command, const Error& error) const {
    std::string text = error.what();
    for (const Option& option : command.options()) {
        const bool is_default = !option.origin.empty() && given(option).empty();
        if (is_default && text.find("'" + option.fallback + "'") != std::string::npos)
            text += "; '" + option.fallback + "' is from " + option.origin + ", before which --" +
                    option.long_name() + " goes";
    }
    return {error.code(), text};
}

const std::vector<std::string>& Parser::given(const Option& option) const {
    return parts_->options.at(&option)->results();
}

}  // namespace gpumat::cli
