#pragma once

#include <functional>

namespace gpumat::cli {

/// Calls `run` and returns what it returns. Where the system allows the stack less than the tool needs
/// (`ulimit -s`), it runs in a thread with enough, and so does all that it starts.
int with_enough_stack(const std::function<int()>& run);

}  // namespace gpumat::cli
