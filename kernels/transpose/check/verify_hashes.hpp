#pragma once

#include <optional>

#include "kernels/check/stored_matrices.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/problem.hpp"

namespace gpumat::transpose {

/// Where several processes check together: that the sums of a hash of row, column and bits of the elements
/// are equal, where rows and columns of the input are exchanged. Every mode but none checks the same.
std::optional<Verification> verify_hashes(const Problem& problem, const StoredMatrices& stored,
                                          const VerifyOptions& how, std::uint64_t room);

}  // namespace gpumat::transpose
