#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options/command.hpp"
#include "core/error.hpp"

namespace gpumat::cli {

/// What a command line asks for.
struct Asked {
    Command* command = nullptr;  ///< the innermost one that it names
    std::string text;            ///< to print in place of a run: the help or the version
};

/// Parses command lines with the options of a tool, into their targets. The tool is whole when the parser is
/// made, and outlives it.
class Parser {
  public:
    /// Defaults come from the environment and the configuration at that path, as settings.hpp says.
    Parser(Command& tool, std::string configuration, bool as_job);
    Parser(const Parser&) = delete;
    Parser& operator=(const Parser&) = delete;
    ~Parser();

    /// `words[0]` is the tool. Throws Error{usage} with what is wrong: a word that is not known, with what
    /// was probably meant, before anything that is missing. Again only with words that have the same options:
    /// the targets of those of the last time keep their values.
    Asked parse(const std::vector<std::string>& words);

    /// The error of a command that ran, which also says where the values that it quotes are from, if that is
    /// a variable or a file.
    [[nodiscard]] Error with_origins(const Command& command, const Error& error) const;

    /// What the last command line gave to the option.
    [[nodiscard]] const std::vector<std::string>& given(const Option& option) const;

  private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace gpumat::cli
