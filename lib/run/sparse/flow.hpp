#pragma once

#include <array>

#include "lib/run/flow.hpp"

namespace gpumat {

/// What a flow of sparse matrices found.
struct SparseCounts {
    std::array<std::int64_t, kMostInputs> entries = {};  ///< of the inputs that are sparse, by role
    std::int64_t result_entries = 0;                     ///< where the result is sparse
    std::int64_t duplicates = 0;                         ///< entries of inputs that were added to others
    std::int64_t parts = 1;
    double flops = 0;
    std::int64_t zeros = 0;  ///< entries of inputs that are stored and are zero
};

/// Reads the inputs, each sparse or dense as the plan's problem says, computes, verifies and writes, one
/// after the other, each with all that the one before it gave. Where verification fails nothing is written,
/// unless `keep_failed`. Throws Error; Error{memory} also for a result that is too large once it has been
/// counted. `watch`, where there is one, is started and hears when the GPU has computed.
FlowResult sparse_flow(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                       ConditionsWatch* watch, Progress& progress, SparseCounts& counts);

}  // namespace gpumat
