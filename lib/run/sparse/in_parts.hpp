#pragma once

#include "lib/run/sparse/flow.hpp"
#include "lib/stored/entries_on_disk.hpp"

namespace gpumat {

/// Whether a run can go in parts through the disk: its one input gives its entries, its result is sparse and
/// is taken by rows.
bool can_go_in_parts(const Plan& plan);

/// What a part with these columns of the input takes, at most.
std::uint64_t bytes_of_sparse_part(const RunOptions& options, const Plan& plan,
                                   const EntriesOnDisk::Range& range);

/// As sparse_flow, for a plan with `sparse_room`: the entries of the input go to a temporary file, by ranges
/// of columns. Each range is read from there, computed and verified; what it gives is kept in another one,
/// from which the result is written once all is right.
FlowResult sparse_flow_in_parts(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                                Progress& progress, SparseCounts& counts);

}  // namespace gpumat
