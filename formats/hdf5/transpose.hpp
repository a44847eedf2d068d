#pragma once

#include "lib/core/matrix.hpp"

namespace gpumat::formats::hdf5 {

/// Writes the transpose of `from` to `to` (transposed shape, same type), for files whose dimensions are
/// reversed. Formats know nothing of the kernels, hence a plain tiled loop of their own.
void transpose(const MatrixView& from, const MutableMatrixView& to, int threads);

}  // namespace gpumat::formats::hdf5
