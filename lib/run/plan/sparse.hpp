#pragma once

#include "core/messages.hpp"
#include "kernels/registry.hpp"
#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;

/// Decides how the operands of a run lie in memory: sparse where inputs are stored so, the operation has
/// levels for that, a sparse result is written in a format that has sparse matrices, and nothing asks for
/// dense ones. In HDF5 it has the layout that is asked for, or that of the first sparse input; a result of
/// text alone is dense there, unless a layout is asked for.
void choose_structure(const RunOptions& options, Plan& plan);

/// Decides the device, the level and the memory of a run with sparse matrices. Throws Error{unsupported} with
/// every reason and the levels that there are, Error{memory} before anything is allocated.
void plan_sparse(const RunOptions& options, const Registry& registry, Plan& plan);

/// Throws Error{memory} where a result that turns out to have so many entries does not fit.
void require_memory_for_counted(const RunOptions& options, const Plan& plan, std::int64_t entries);

/// Plans a run in parts of one whose result is counted and turned out not to fit. False where it cannot go
/// so, or its inputs cannot be read again.
bool plan_counted_in_parts(const RunOptions& options, Plan& plan);

}  // namespace gpumat
