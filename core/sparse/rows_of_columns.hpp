#pragma once

#include <string>

#include "core/sparse/csr.hpp"

namespace gpumat {

/// The transpose of a matrix whose structure holds: its rows are the matrix's columns. Beside the transpose
/// it takes a number a row and a column, and where rows are long less than two bytes an entry. Throws
/// Error{memory} naming `what`.
Csr rows_of_columns(const CsrView& matrix, int threads, const std::string& what);

}  // namespace gpumat
