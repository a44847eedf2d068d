#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/registry.hpp"

namespace gpumat::cli {

// The names of values that options take: of some, all there are.

std::vector<std::string> type_names();
std::vector<std::string> format_names();
std::vector<std::string> engine_names();

/// The levels that a run of the operation, or of any where it is null, can be asked for on all kinds of
/// device, and auto.
std::vector<std::string> level_names(const Registry& registry, const Operation* operation);

/// What the levels of the operation, or of any where it is null, take for a parameter.
std::vector<std::string> parameter_choices(const Registry& registry, const Operation* operation,
                                           std::string_view parameter);

}  // namespace gpumat::cli
