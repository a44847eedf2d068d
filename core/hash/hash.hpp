#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// "crc32:%08x": the CRC-32 of zlib over the elements in row-major order, as their little-endian bytes.
/// The same as Python's zlib.crc32(array.tobytes()), whatever file format the matrix came from.
std::string content_hash(const MatrixView& matrix, int threads);

/// The content hash that the matrix's transpose has, without making it.
std::string transposed_content_hash(const MatrixView& matrix, int threads);

/// The content hash of a matrix that comes in blocks, in any order. Blocks in the same columns must be as
/// wide as each other.
class ContentHash {
  public:
    ContentHash(const Shape& whole, Type type, int threads);

    /// Takes a block of the matrix. Each element must come once.
    void add(const Block& block, const MatrixView& elements);

    /// After all blocks.
    [[nodiscard]] std::string text() const;

  private:
    /// Columns [its key, its key + cols) of the matrix: the CRC of each of its rows.
    struct Strip {
        std::int64_t cols = 0;
        std::vector<std::uint32_t> rows;
    };

    /// Whole rows, which follow each other in memory.
    struct Run {
        std::uint32_t crc = 0;
        std::int64_t bytes = 0;
    };

    Shape whole_;
    std::int64_t element_;
    int threads_;
    std::map<std::int64_t, Strip> strips_;  ///< by first column
    std::map<std::int64_t, Run> runs_;      ///< by first row, where blocks are as wide as the matrix
};

}  // namespace gpumat
