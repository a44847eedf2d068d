#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/numbers/transpose.hpp"
#include "formats/format.hpp"

namespace gpumat {

/// The transpose of a stored matrix: blocks are transposed as they are read.
class TransposedReader final : public formats::Reader {
  public:
    TransposedReader(std::shared_ptr<formats::Reader> reader, int threads)
        : reader_(std::move(reader)), header_(reader_->header()), threads_(threads) {
        header_.shape = header_.shape.transposed();
        header_.grain = header_.grain.transposed();
        header_.most_entries.reset();
        header_.chunking.reset();
    }

    [[nodiscard]] const formats::Header& header() const override { return header_; }
    void read(const Block& block, const MutableMatrixView& out) override {
        Matrix stored({block.cols, block.rows}, header_.type, "a block that is transposed");
        reader_->read({block.col, block.row, block.cols, block.rows}, stored.view());
        transpose_into(stored.view(), out, threads_);
    }
    [[nodiscard]] std::uint64_t open_bytes() const override { return reader_->open_bytes(); }
    [[nodiscard]] std::uint64_t working_bytes() const override { return reader_->working_bytes(); }
    void set_spare(std::uint64_t bytes) override { reader_->set_spare(bytes); }
    void require_unchanged() const override { reader_->require_unchanged(); }
    [[nodiscard]] std::vector<std::string> other_files() const override { return reader_->other_files(); }

  private:
    std::shared_ptr<formats::Reader> reader_;
    formats::Header header_;
    int threads_;
};

}  // namespace gpumat
