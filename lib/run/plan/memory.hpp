#pragma once

#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;

/// One part where all fits into memory, else as many as it takes; and the memory of either side. Throws
/// Error{memory} where not even the smallest parts fit.
void plan_parts(const RunOptions& options, Plan& plan);

}  // namespace gpumat
