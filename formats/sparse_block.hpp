#pragma once

#include "core/numbers/matrix.hpp"
#include "core/sparse/csr.hpp"

namespace gpumat::formats {

/// Fills `out`, of the matrix's type, with a block of the matrix, which is zero where it has no entry.
void put_block(const CsrView& matrix, const Block& rect, const MutableMatrixView& out);

}  // namespace gpumat::formats
