#pragma once

#include "lib/run/sparse/flow.hpp"

namespace gpumat {

/// As sparse_flow, for a plan with `sparse_room`: ranges of rows of the result, or of what is reduced to one,
/// are read, computed and verified one after the other (`sparse/ways`). A range whose result turns out not to
/// fit is cut once more. Sparse results are kept in a temporary file, from which they are written once all is
/// right. Throws Error{memory} also for one row that does not fit.
FlowResult sparse_flow_in_parts(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                                Progress& progress, SparseCounts& counts);

}  // namespace gpumat
