#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gpumat::cli {

// The command line as rows: a command has an item for each of its options. What parses command lines, the
// help, the completions, the manual pages, the configuration and the variables of the environment are all
// made of them, so that an option is said in one place.

/// Where the value of an option goes: into a variable, or through a function.
using Target = std::variant<std::monostate, bool*, int*, std::uint64_t*, double*, std::string*,
                            std::vector<std::string>*, std::optional<int>*, std::optional<std::int64_t>*,
                            std::optional<std::uint64_t>*, std::optional<double>*,
                            std::optional<std::string>*, std::function<void(const std::string& value)>,
                            std::function<void(const std::vector<std::string>& values)>,
                            std::function<void(std::int64_t count)>,  ///< of a flag: how often it is given
                            std::function<void()>>;                   ///< of a flag that is given

/// What a number must be within.
using Range = std::variant<std::monostate, std::pair<int, int>, std::pair<std::int64_t, std::int64_t>,
                           std::pair<std::uint64_t, std::uint64_t>, std::pair<double, double>>;

/// What is wrong with the text of a value; empty where nothing is.
using Check = std::function<std::string(const std::string& text)>;

/// The group of the help that comes last: what all commands have.
inline constexpr const char* kGeneralGroup = "General";

/// An option, a flag or a position of a command. Whoever adds one says more of it by the functions.
struct Option {
    std::vector<std::string> names;  ///< "-l" and "--level"; of a position its name alone
    bool positional = false;
    bool flag = false;
    Target target;
    std::string help;
    std::string group;
    std::string value_name;           ///< as it was named
    std::vector<std::string> values;  ///< that it takes; all or some of them
    bool only_these = false;          ///< others are refused
    Range range;
    std::vector<Check> checks;
    std::string fallback;  ///< the value without it
    std::string origin;    ///< of that, where a variable or a file gives it: "GPUMAT_LEVEL"
    bool is_required = false;
    bool is_list = false;                 ///< one argument with commas
    bool is_size = false;                 ///< bytes, or a number with a unit such as 4GiB
    bool is_at_once = false;              ///< takes effect while the command line is parsed
    bool has_variable = false;            ///< the environment may give it another default
    bool configurable = true;             ///< a configuration may
    std::function<std::string()> answer;  ///< what is printed in place of a run, where the flag is given
    std::vector<const Option*> needed;
    std::vector<const Option*> excluded;

    /// Names what it takes: LEVEL.
    Option& value(std::string name);
    Option& choices(std::vector<std::string> all);
    /// Names values that it takes beside others: for completion only, nothing is refused.
    Option& suggests(std::vector<std::string> some);
    template <class T>
    Option& within(T least, T most) {
        range = std::pair<T, T>(least, most);
        return *this;
    }
    Option& check(Check what_is_wrong);
    Option& required();
    /// The help shows what the target holds now, or that text.
    Option& shows_default();
    Option& shows_default(std::string text);
    Option& size();
    Option& at_once();
    Option& from_environment();
    Option& only_on_command_line();
    Option& in_group(std::string title);
    Option& answers(std::function<std::string()> text);
    /// It goes only with that one, or only without it.
    Option& needs(const Option& other);
    Option& excludes(const Option& other);

    /// "level", without the dashes; empty where it has none.
    [[nodiscard]] std::string long_name() const;
    /// Takes several values.
    [[nodiscard]] bool many() const;
    /// What it takes, in a word: as it was named, else N for a number, else its values where they are few,
    /// else its name. Empty for a flag.
    [[nodiscard]] std::string shown_value() const;
};

/// A command with its options and the commands in it.
class Command {
  public:
    std::string name;
    std::string summary;
    std::string footer;             ///< of the help
    bool hidden = false;            ///< in the help
    bool requires_command = false;  ///< one of those in it
    std::function<void()> run;
    /// Called once the options are parsed, before others of the command line are: what is wrong with them.
    std::function<std::string()> when_parsed;

    Command(std::string name, std::string summary, Command* outer = nullptr);
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    ~Command() = default;

    /// "-l,--level", or "file" for a position.
    Option& option(const std::string& names, Target target, std::string help);
    Option& flag(const std::string& names, Target target, std::string help);
    /// An option that takes a list: one argument with commas, so that what follows it is not taken for more.
    Option& list(const std::string& names, Target target, std::string help);
    Command& command(std::string name, std::string summary);
    /// What is added from here on stands in the help under this title.
    void begin_group(std::string title) { group_ = std::move(title); }

    [[nodiscard]] const Command* outer() const { return outer_; }
    /// "gpumat verify transpose".
    [[nodiscard]] std::string path() const { return outer_ == nullptr ? name : outer_->path() + " " + name; }
    [[nodiscard]] const std::list<Option>& options() const { return options_; }
    [[nodiscard]] std::list<Option>& options() { return options_; }
    [[nodiscard]] const std::list<Command>& commands() const { return commands_; }
    [[nodiscard]] std::list<Command>& commands() { return commands_; }
    /// The option of that name, "--level" or "-l"; null where there is none.
    [[nodiscard]] const Option* find(const std::string& option_name) const;

  private:
    Option& add(const std::string& names, Target target, std::string help);

    Command* outer_;
    std::string group_ = "Options";
    std::list<Option> options_;
    std::list<Command> commands_;
};

}  // namespace gpumat::cli
