#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options/command.hpp"
#include "cli/options/parser.hpp"
#include "cli/terminal/context.hpp"

namespace gpumat::cli {

/// Adds the commands of the tool, or only the one of that name.
void add_commands(Command& tool, Context& context, const std::string& only = "");

/// Whether a line of a batch may begin with this word: a command that works on matrices, measures nothing and
/// runs no other jobs.
bool may_be_job(const std::string& command, const Registry& registry);

/// What parses command lines and runs them. `words[0]` is the tool.
class CommandLine {
  public:
    /// With all commands, or only the one of that name.
    CommandLine(const std::vector<std::string>& words, const Registry& registry, const std::string& only);
    /// The same for a job of a batch.
    CommandLine(const std::vector<std::string>& words, const Registry& registry, const std::string& only,
                NamingNotice before_naming);
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;
    ~CommandLine() = default;

    /// Errors are told on standard error. Returns the exit code. Again only with words that have the same
    /// options: those of the last run keep their values.
    int run(const std::vector<std::string>& words);

  private:
    explicit CommandLine(Context context, const std::string& only);

    Command tool_;
    Context context_;
    std::unique_ptr<Parser> parser_;  ///< once the commands are there
};

}  // namespace gpumat::cli
