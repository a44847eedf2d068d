#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "kernels/registry.hpp"

namespace gpumat::cli {

/// How a command talks: shared by all of them.
struct Style {
    bool json = false;
    bool quiet = false;
    bool verbose = false;
};

/// What every command gets, and where it leaves its exit code.
struct Context {
    const Registry& registry;
    std::vector<std::string> command_line;
    Style style;
    int exit_code = 0;
};

/// Adds --json, -q and -v to a command.
void add_style_options(CLI::App& command, Style& style);

// One function a command, each in the file of its name.
void add_transpose(CLI::App& app, Context& context);
void add_multiply(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_levels(CLI::App& app, Context& context);
void add_info(CLI::App& app, Context& context);
void add_devices(CLI::App& app, Context& context);

}  // namespace gpumat::cli
