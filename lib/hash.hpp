#pragma once

#include <string>

#include "lib/core/matrix.hpp"

namespace gpumat {

/// "crc32:%08x": the CRC-32 of zlib over the elements in row-major order, as their little-endian bytes.
/// The same as Python's zlib.crc32(array.tobytes()), whatever file format the matrix came from.
std::string content_hash(const MatrixView& matrix, int threads);

/// The content hash that the matrix's transpose has, without making it.
std::string transposed_content_hash(const MatrixView& matrix, int threads);

}  // namespace gpumat
