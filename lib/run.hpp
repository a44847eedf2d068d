#pragma once

#include "kernels/registry.hpp"
#include "lib/options.hpp"
#include "lib/record.hpp"

namespace gpumat {

/// Runs one transpose or multiply: reads, computes, verifies, writes.
///
/// `record` is filled as the run goes on, so that it tells how far a failed run came. Returns 0, or 1 where
/// verification found a difference (nothing is written then, unless `keep_failed`). Throws Error.
int run(const RunOptions& options, const Registry& registry, RunRecord& record);

}  // namespace gpumat
