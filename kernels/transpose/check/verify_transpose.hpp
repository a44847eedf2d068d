#pragma once

#include <memory>

#include "core/numbers/matrix.hpp"
#include "kernels/check/result_check.hpp"
#include "kernels/check/verification.hpp"

// Transposes are compared bit for bit.

namespace gpumat {

/// Whether `out` is the transpose of `in`, bit for bit (every mode but `none` does the same).
/// Throws Error{not_comparable} where shapes or types do not fit.
Verification verify_transpose(const MatrixView& in, const MatrixView& out, const VerifyOptions& options);

/// The same for a result that comes in panels of rows; the input must stay until the end. Null where there
/// are no elements.
std::unique_ptr<ResultCheck> check_transpose_panels(const Problem& problem, const Operands& inputs,
                                                    const VerifyOptions& how);

}  // namespace gpumat
