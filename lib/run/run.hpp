#pragma once

#include "core/messages.hpp"
#include "kernels/registry.hpp"
#include "lib/record/record.hpp"
#include "lib/run/options.hpp"

namespace gpumat {

/// Runs an operation: reads, computes, verifies, writes.
///
/// `record` is filled as the run goes on, so that it tells how far a failed run came. Returns 0, or 1 where
/// verification found a difference (nothing is written then, unless `keep_failed`). `say` hears what a user
/// may want to know on the way. Throws Error.
int run(const RunOptions& options, const Registry& registry, RunRecord& record, const Tell& say);

}  // namespace gpumat
