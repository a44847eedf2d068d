#pragma once

#include <string_view>

namespace gpumat {

/// The README of an operation's folder, as it was when this was built; empty for one that has none.
std::string_view readme_of(std::string_view operation);

}  // namespace gpumat
