#pragma once

#include <string>
#include <vector>

#include "cli/options/command.hpp"

namespace gpumat::cli {

// The rows of a command as help, completions and manual pages tell them: in their order, with what follows
// from them.

/// An option of a command, or one of its positions.
struct OptionFacts {
    std::vector<std::string> names;  ///< "-l" and "--level"; of a position its name alone
    bool positional = false;
    bool required = false;
    bool many = false;                ///< takes several values
    std::string value;                ///< what it takes, "LEVEL"; empty for a flag
    bool is_file = false;             ///< the value names a file
    std::vector<std::string> values;  ///< that it takes, all or some of them
    std::string help;
    std::string fallback;     ///< the value without it
    std::string environment;  ///< the variable that gives another one
    std::string group;
};

/// A command with its inner ones. Hidden commands are none of them.
struct CommandFacts {
    std::string path;  ///< "gpumat verify transpose"
    std::string name;  ///< "transpose"
    std::string summary;
    std::string footer;
    std::vector<OptionFacts> options;  ///< by group, in the order in which the groups were first used
    std::vector<CommandFacts> commands;
};

CommandFacts facts_of(const Command& command);

}  // namespace gpumat::cli
