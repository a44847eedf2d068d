#pragma once

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// Writes the transpose of `from` to `to` (transposed shape, same type): a plain tiled loop, for files whose
/// dimensions are reversed and for comparisons. The levels of the transpose are in kernels/.
void transpose_into(const MatrixView& from, const MutableMatrixView& to, int threads);

}  // namespace gpumat
