#pragma once

#include "core/messages.hpp"
#include "kernels/registry.hpp"
#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;

/// Whether a run keeps its sparse input sparse: the operation has levels for that, the result is written in a
/// format that has sparse matrices, and nothing asks for dense ones.
bool stays_sparse(const RunOptions& options, const Plan& plan);

/// Decides the level and the memory of such a run, on the CPU. Throws Error{unsupported} with every reason
/// and the levels that there are, Error{memory} before anything is allocated.
void plan_sparse(const RunOptions& options, const Registry& registry, Plan& plan);

}  // namespace gpumat
