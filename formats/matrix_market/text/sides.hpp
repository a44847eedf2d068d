#pragma once

#include "formats/matrix_market/text/body.hpp"

namespace gpumat::formats::matrix_market {

/// Refuses a coordinate file of a matrix with symmetry that has entries for an element and for the one across
/// the diagonal: each of them gives both. Reads the indices of the file twice. Throws Error{input}, and
/// Error{memory} where the entries above the diagonal do not fit into the context's memory.
void require_one_side(const BodyContext& context);

}  // namespace gpumat::formats::matrix_market
