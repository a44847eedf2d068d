#pragma once

#include <vector>

#include "lib/run/plan/inputs.hpp"
#include "lib/run/verify_stored.hpp"

namespace gpumat {

/// How the matrices of a stored result lie in memory while it is verified: sparse where they are stored so,
/// the check knows that, and there is room for it; else all dense.
Structure structure_to_verify(const std::vector<PlannedInput>& inputs, const formats::Reader& result,
                              const StoredResult& asked, const Problem& problem);

/// Verifies a stored result with that structure, which is in the record's problem. Fills the record's hashes,
/// entries and times. Throws as the readers do.
Verification verify_sparse_stored(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                  const StoredResult& asked, StoredVerification& record);

}  // namespace gpumat
