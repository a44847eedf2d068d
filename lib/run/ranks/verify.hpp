#pragma once

#include <vector>

#include "lib/run/plan/inputs.hpp"
#include "lib/run/verify_stored.hpp"

namespace gpumat {

/// Verifies opened matrices on the team that is asked for: each rank has rows of all of them. Fills hashes,
/// times and engine of the record. Throws as verify_stored.
Verification verify_stored_on_ranks(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                    const StoredResult& asked, StoredVerification& record);

}  // namespace gpumat
