#pragma once

#include <cstdint>
#include <string>

#include "core/sparse/csr.hpp"

namespace gpumat {

/// The content hash of the dense matrix that has these entries and is zero elsewhere, without making it. The
/// structure must hold.
std::string content_hash(const CsrView& matrix, int threads);

/// The same of a matrix that comes in blocks, in any order, each element in one of them.
class SparseContentHash {
  public:
    SparseContentHash(const Shape& whole, Type type) : whole_(whole), type_(type) {}

    /// Takes a block, whose first element has this place.
    void add(std::int64_t row, std::int64_t col, const CsrView& block);

    /// After all blocks.
    [[nodiscard]] std::string text() const;

  private:
    Shape whole_;
    Type type_;
    std::uint32_t remainder_ = 0;
};

}  // namespace gpumat
