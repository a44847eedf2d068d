#pragma once

#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;

/// Where the result goes, if it goes anywhere; not opened.
void plan_output(const RunOptions& options, Plan& plan);

}  // namespace gpumat
