#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/format.hpp"
#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;
struct PlannedInput;

/// Decides how a run is spread over ranks. Throws Error{unsupported} with every reason, Error{usage} for a
/// grid or a level that makes no sense, Error{memory} where a rank's share passes the limit.
void plan_on_ranks(const RunOptions& options, Plan& plan);

/// Where all ranks can read it; nothing where rank 0 has to.
std::optional<formats::StoredPlace> shared_place(const PlannedInput& input);

/// What was decided, by name.
std::vector<std::pair<std::string, std::string>> facts_of_ranks(const RunOptions& options, const Plan& plan);

}  // namespace gpumat
