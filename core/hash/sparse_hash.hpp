#pragma once

#include <cstdint>
#include <string>

#include "core/sparse/csr.hpp"

namespace gpumat {

/// The content hash of the dense matrix that has certain entries and is zero elsewhere, without making it, of
/// blocks in any order, each element in one of them. The structure must hold.
class SparseContentHash {
  public:
    SparseContentHash(const Shape& whole, Type type) : whole_(whole), type_(type) {}

    /// Takes a block, whose first element has this place.
    void add(std::int64_t row, std::int64_t col, const CsrView& block, int threads);

    /// Takes what another one has of the same matrix.
    void merge(const SparseContentHash& other) { remainder_ ^= other.remainder_; }

    /// After all blocks.
    [[nodiscard]] std::string text() const;

  private:
    Shape whole_;
    Type type_;
    std::uint32_t remainder_ = 0;
};

/// The same of a matrix that is there.
std::string content_hash(const CsrView& matrix, int threads);

}  // namespace gpumat
