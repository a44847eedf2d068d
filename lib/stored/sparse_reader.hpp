#pragma once

#include "core/sparse/csr.hpp"
#include "formats/format.hpp"

namespace gpumat {

/// A sparse matrix that is read whole, once, and given in dense blocks from memory: for who goes through it
/// in blocks, each of which would else read the file anew.
class SparseReader final : public formats::Reader {
  public:
    /// Reads the matrix, whose header says `most_entries`. The reader must stay.
    explicit SparseReader(formats::Reader& reader);

    [[nodiscard]] const formats::Header& header() const override { return header_; }
    void read(const Block& block, const MutableMatrixView& out) override;
    [[nodiscard]] std::uint64_t open_bytes() const override;
    void require_unchanged() const override { reader_.require_unchanged(); }
    [[nodiscard]] std::vector<std::string> other_files() const override { return reader_.other_files(); }

    [[nodiscard]] const Csr& matrix() const { return matrix_; }

  private:
    formats::Reader& reader_;
    formats::Header header_;
    Csr matrix_;
};

/// What that takes at most, beside what the reader has open.
std::uint64_t bytes_to_hold(const formats::Reader& reader);

}  // namespace gpumat
