#pragma once

#include "core/numbers/matrix.hpp"
#include "kernels/check/check.hpp"

// Transposes are compared bit for bit.

namespace gpumat {

/// Whether `out` is the transpose of `in`, bit for bit (every mode but `none` does the same).
/// Throws Error{not_comparable} where shapes or types do not fit.
Verification verify_transpose(const MatrixView& in, const MatrixView& out, const VerifyOptions& options);

namespace transpose {
/// In panels of rows, too, and while both matrices are read.
extern const Check kCheck;
}  // namespace transpose

}  // namespace gpumat
