#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "formats/format.hpp"
#include "kernels/check/stored_matrices.hpp"

namespace gpumat {

/// A stored matrix for the checks of operations, which know no files.
class ReadMatrix final : public StoredMatrix {
  public:
    /// Adds what is read block by block to `bytes_read`.
    ReadMatrix(formats::Reader& reader, int threads, std::atomic<std::uint64_t>& bytes_read)
        : reader_(reader), threads_(threads), bytes_read_(bytes_read) {}

    [[nodiscard]] Shape shape() const override { return reader_.header().shape; }
    [[nodiscard]] Type type() const override { return reader_.header().type; }
    [[nodiscard]] Shape grain() const override { return reader_.header().grain; }
    [[nodiscard]] bool comes_once() const override { return reader_.header().in_order; }

    void read(const Block& block, const MutableMatrixView& into) override { reader_.read(block, into); }
    void read_in_blocks(std::uint64_t room, const TakeBlock& take) override;
    [[nodiscard]] std::uint64_t least_for_blocks() const override;

    /// The content hash of what was read block by block; empty where nothing was.
    [[nodiscard]] const std::string& hash() const { return hash_; }

  private:
    formats::Reader& reader_;
    int threads_;
    std::atomic<std::uint64_t>& bytes_read_;
    std::string hash_;
};

}  // namespace gpumat
