#pragma once

#include "cli/context.hpp"

namespace gpumat::cli {

/// Takes away the line that shows what is going on, on a terminal.
inline constexpr const char* kClearLine = "\r\x1b[K";

/// Whether such a line is wanted: standard error is a terminal that may be coloured, and not to be quiet.
bool shows_progress(const Style& style);

}  // namespace gpumat::cli
