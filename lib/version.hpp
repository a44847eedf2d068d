#pragma once

#include <string_view>

namespace gpumat {

/// The version of this build, "0.1.0".
std::string_view version();

}  // namespace gpumat
