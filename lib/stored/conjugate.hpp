#pragma once

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// Makes every element its conjugate: the sign of the imaginary part changes, of a NaN too. Real matrices
/// stay as they are.
void conjugate(const MutableMatrixView& matrix, int threads);

}  // namespace gpumat
