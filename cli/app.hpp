#pragma once

#include "kernels/registry.hpp"

namespace gpumat::cli {

/// The whole tool: parses the command line, runs the command, prints errors to standard error and returns
/// the exit code. The registry is a parameter so that tests can add levels of their own.
int run(int argc, char** argv, const Registry& registry);

}  // namespace gpumat::cli
