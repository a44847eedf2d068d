#pragma once

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// Makes every NaN of a matrix the one without a sign and a payload: what is left of it in a format that has
/// no more than "nan" for it.
void make_nans_plain(const MutableMatrixView& matrix, int threads);

}  // namespace gpumat
