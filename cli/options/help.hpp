#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gpumat::cli {

/// The help of a command: usage, options in groups and commands, in lines of 80 columns. What its footer says
/// is shown as it stands.
class HelpFormatter : public CLI::FormatterBase {
  public:
    [[nodiscard]] std::string make_help(const CLI::App* command, std::string name,
                                        CLI::AppFormatMode mode) const override;
};

}  // namespace gpumat::cli
