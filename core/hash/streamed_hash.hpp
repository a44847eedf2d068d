#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/numbers/matrix.hpp"

namespace gpumat {

/// The content hash (core/hash/hash.hpp) of a matrix that comes block by block: every block of a row from
/// left to right, whatever the order of the rows; or whole rows from the top down, which needs no memory for
/// each.
class StreamedHash {
  public:
    StreamedHash(const Shape& shape, Type type) : shape_(shape), type_(type) {}

    void take(const Block& block, const MatrixView& view, int threads);

    /// The hash of all that was taken, once that is the whole matrix.
    [[nodiscard]] std::string text() const;

  private:
    Shape shape_;
    Type type_;
    std::uint32_t whole_ = 0;          ///< of rows that came as a whole
    std::vector<std::uint32_t> rows_;  ///< of each row, as far as it came; empty where they come as a whole
};

}  // namespace gpumat
