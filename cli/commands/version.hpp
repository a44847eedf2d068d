#pragma once

#include <string>

#include "kernels/registry.hpp"

namespace gpumat::cli {

/// What --version prints: the version in the first line, then what the build is made of, and the vendors'
/// libraries that levels of this build load when they run. Loads nothing.
std::string version_text(const Registry& registry);

}  // namespace gpumat::cli
