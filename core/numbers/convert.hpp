#pragma once

#include <string>

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// Converts every element of `from` into the type of `to` (same shape), on `threads` threads.
///
/// A conversion that was asked for may round to the nearest value of the new type. It is refused, with
/// Error{input} naming `what`, the row and the column (from 1), where a value
///  - lies beyond the range of the new type (a float does not become infinity),
///  - has a fraction, or is NaN or infinite, and the new type is an integer,
///  - has a non-zero (or NaN) imaginary part and the new type is not complex.
/// Infinities and NaN pass between floating types. Integers pass exactly or, into a float, rounded once.
/// `place` is where the views lie in the matrix that the message speaks of.
void convert(const MatrixView& from, const MutableMatrixView& to, const std::string& what, int threads,
             const Block& place = {});

}  // namespace gpumat
