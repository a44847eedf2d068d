#pragma once

#include <optional>
#include <vector>

#include "lib/run/plan/inputs.hpp"
#include "lib/run/verify_stored.hpp"

namespace gpumat {

/// Verifies a stored result whose matrices are sparse, as the record's problem says, and do not fit into
/// memory: by ranges of rows, as a run in parts computes them, with the stored rows in place of computed
/// ones. `level` is one that computes the problem. Fills the record's hashes, entries and times. Nothing, and
/// nothing read, where there is no way or no room. Throws as the readers do, and Error{memory} for a row that
/// does not fit.
std::optional<Verification> verify_sparse_in_parts(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                                   const StoredResult& asked, const Level& level,
                                                   StoredVerification& record);

}  // namespace gpumat
