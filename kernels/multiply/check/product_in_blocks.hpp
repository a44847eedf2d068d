#pragma once

#include <cstdint>
#include <optional>

#include "kernels/check/stored_matrices.hpp"
#include "kernels/check/verification.hpp"

namespace gpumat {

/// Freivalds' check of a stored product, block by block: each matrix is read once, and of the rows that are
/// compared with the reference, A, B and D once more. Nothing where the mode, or a matrix that comes through
/// a pipe, needs another check.
std::optional<Verification> verify_product_in_blocks(const Problem& problem, const StoredMatrices& stored,
                                                     const VerifyOptions& how, std::uint64_t room);

}  // namespace gpumat
