#pragma once

#include "kernels/check/stored_matrices.hpp"
#include "lib/engines/panels.hpp"

namespace gpumat::engines {

/// A matrix that the ranks have, for a check that all of them make together.
class MatrixOnRanks final : public StoredMatrix {
  public:
    MatrixOnRanks(Ranks& ranks, const Layout& layout, const std::byte* blocks)
        : ranks_(ranks), layout_(layout), blocks_(blocks) {}

    [[nodiscard]] Shape shape() const override { return layout_.shape; }
    [[nodiscard]] Type type() const override { return layout_.type; }
    [[nodiscard]] Shape grain() const override { return {1, 1}; }
    [[nodiscard]] bool comes_once() const override { return false; }
    [[nodiscard]] std::uint64_t least_for_blocks() const override { return 0; }

    /// By all: the elements come to rank 0, without gaps; the others get zeros.
    void read(const Block& block, const MutableMatrixView& into) override;
    /// The blocks of this rank, where they lie.
    void read_in_blocks(std::uint64_t room, const TakeBlock& take) override;

  private:
    Ranks& ranks_;
    const Layout& layout_;
    const std::byte* blocks_;
};

}  // namespace gpumat::engines
