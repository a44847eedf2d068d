#pragma once

#include "kernels/check/verification.hpp"
#include "kernels/operand.hpp"
#include "kernels/problem.hpp"

namespace gpumat::transpose {

/// Checks that compressed rows are the transpose of others: both structures hold, there are as many entries,
/// and the sums of a hash of row, column and the bits of the value are equal, where rows and columns of one
/// are exchanged. What is wrong is said in the note. Every mode but none checks the same.
Verification verify_sparse(const Problem& problem, const Operands& operands, const VerifyOptions& how);

}  // namespace gpumat::transpose
