#pragma once

#include "lib/record/progress.hpp"
#include "lib/record/record.hpp"
#include "lib/run/flow.hpp"
#include "lib/run/options.hpp"
#include "lib/run/plan.hpp"

namespace gpumat {

/// Reads, computes, verifies and writes a plan on ranks, one step after the other. Contiguous datasets of
/// HDF5 are read and written by all ranks, everything else by this one, which is told. MPI starts when the
/// inputs are opened and the output is made, which fork. Throws Error; the other ranks are to be dismissed
/// then.
FlowResult flow_on_ranks(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                         Progress& progress, RunRecord& record, const Tell& say);

}  // namespace gpumat
