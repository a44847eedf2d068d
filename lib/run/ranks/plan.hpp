#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;

/// Decides how a run is spread over ranks. Throws Error{unsupported} with every reason, Error{usage} for a
/// grid or a level that makes no sense, Error{memory} where a rank's share passes the limit.
void plan_on_ranks(const RunOptions& options, Plan& plan);

/// What was decided, by name.
std::vector<std::pair<std::string, std::string>> facts_of_ranks(const RunOptions& options, const Plan& plan);

}  // namespace gpumat
