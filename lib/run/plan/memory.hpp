#pragma once

#include <string>

#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;

/// One part where all fits into memory, else as many as it takes; and the memory of either side. Throws
/// Error{memory} where not even the smallest parts fit.
void plan_parts(const RunOptions& options, Plan& plan);

/// Throws Error{memory} naming `what` where the device has no room for what the plan says.
void require_device_memory(const RunOptions& options, const Plan& plan, const std::string& what);

}  // namespace gpumat
