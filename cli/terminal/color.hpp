#pragma once

#include <string>

namespace gpumat::cli {

/// Colours messages always, never, or (auto) on a terminal unless NO_COLOR is set.
void set_color(const std::string& when);

}  // namespace gpumat::cli
