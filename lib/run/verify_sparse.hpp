#pragma once

#include <vector>

#include "core/sparse/csr.hpp"
#include "lib/run/plan/inputs.hpp"
#include "lib/run/verify_stored.hpp"

namespace gpumat {

/// How the matrices of a stored result lie in memory while it is verified, if there is room: sparse where
/// they are stored so and the check knows that; else all dense.
Structure structure_to_verify(const std::vector<PlannedInput>& inputs, const formats::Reader& result,
                              const StoredResult& asked, const Problem& problem);

/// Whether there is room for all matrices of the problem, which has that structure.
bool fits_sparse(const std::vector<PlannedInput>& inputs, const formats::Reader& result,
                 const StoredResult& asked, const Problem& problem);

/// Whether bits of NaN may have got lost in one of the files.
bool loses_nans(const PlannedInput& input, const formats::Reader& result);

/// Verifies a transpose: of entries alone, as the dense matrices are compared, without what is zero in both.
Verification verify_pairs(const CsrView& input, const CsrView& result, const StoredResult& asked,
                          bool any_nan);

/// Verifies a stored result with that structure, which is in the record's problem. Fills the record's hashes,
/// entries and times. Throws as the readers do.
Verification verify_sparse_stored(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                  const StoredResult& asked, StoredVerification& record);

}  // namespace gpumat
