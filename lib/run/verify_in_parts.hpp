#pragma once

#include <vector>

#include "lib/run/plan/inputs.hpp"
#include "lib/run/verify_stored.hpp"

namespace gpumat {

/// Verifies a stored result part by part, where the matrices do not fit into memory together: as the parts of
/// a run are verified, with the stored blocks in place of computed ones. The operation can be cut into parts
/// that share no block of the result. `fixed_bytes` are taken beside the blocks, of `room` in all. Fills the
/// record's hashes and times. Throws as the readers do, and Error{memory} with the least that would do.
Verification verify_in_parts(std::vector<PlannedInput>& inputs, formats::Reader& result,
                             const StoredResult& asked, std::uint64_t fixed_bytes, std::uint64_t room,
                             StoredVerification& record, Progress& progress);

}  // namespace gpumat
