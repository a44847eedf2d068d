#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// "crc32:%08x".
std::string hash_text(std::uint32_t crc);

/// The CRC-32 of zlib over the elements in row-major order, as their little-endian bytes.
/// The same as Python's zlib.crc32(array.tobytes()), whatever file format the matrix came from.
std::string content_hash(const MatrixView& matrix, int threads);

/// The content hash that the matrix's transpose has, without making it.
std::string transposed_content_hash(const MatrixView& matrix, int threads);

/// The content hash of a matrix that comes in blocks, of any shape and in any order, each element once: what
/// came twice would cancel itself.
class ContentHash {
  public:
    /// A block of a matrix that has this hash.
    struct Part {
        ContentHash* hash;
        Block block;
        MatrixView elements;
    };

    ContentHash(const Shape& whole, Type type, int threads)
        : whole_(whole), element_(static_cast<std::int64_t>(size_of(type))), threads_(threads) {}

    /// Takes a block of the matrix. Each element must come once.
    void add(const Block& block, const MatrixView& elements);

    /// Takes blocks of several matrices, with threads that wait for each other once: beside the threads of
    /// others, each time may cost a turn of the scheduler.
    static void add_together(std::span<const Part> parts, int threads);

    /// What the blocks gave until now, for another process that takes some others.
    [[nodiscard]] std::uint32_t share() const { return crc_; }

    /// After all blocks.
    [[nodiscard]] std::string text() const;

  private:
    /// What the block adds.
    [[nodiscard]] std::uint32_t share_of(const Block& block, const MatrixView& elements, int threads) const;

    Shape whole_;
    std::int64_t element_;
    int threads_;
    std::uint32_t crc_ = 0;
};

}  // namespace gpumat
