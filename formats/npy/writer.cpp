#include "core/error.hpp"
#include "formats/npy/header.hpp"
#include "formats/npy/npy.hpp"
#include "formats/output_file.hpp"

namespace gpumat::formats::npy {
namespace {

class NpyWriter final : public Writer {
  public:
    NpyWriter(const WriteTarget& target, const Shape& shape, Type type)
        : file_(target), shape_(shape), type_(type) {
        const std::string header = header_text(shape, type, target.shown);
        file_.write(std::as_bytes(std::span(header)));
    }

    [[nodiscard]] BlockOrder order() const override { return BlockOrder::row_panels; }

    void write(const Block& block, const MatrixView& in) override {
        if (!block.inside(shape_) || in.shape != block.shape() || in.type != type_ || block.col != 0 ||
            block.cols != shape_.cols || block.row != rows_written_) {
            file_.refuse("a block of " + to_string(block.shape()) + " at row " + std::to_string(block.row) +
                         " came, expected whole rows from row " + std::to_string(rows_written_));
        }
        const auto row_bytes = static_cast<std::size_t>(shape_.cols) * size_of(type_);
        const auto stride = static_cast<std::size_t>(in.ld) * size_of(type_);
        if (row_bytes == stride) {
            file_.write({in.data, static_cast<std::size_t>(block.rows) * row_bytes});
        } else {
            for (std::int64_t i = 0; i < block.rows; ++i)
                file_.write({in.data + static_cast<std::size_t>(i) * stride, row_bytes});
        }
        rows_written_ += block.rows;
    }

    void finish() override {
        if (rows_written_ != shape_.rows && shape_.elements() != 0)
            file_.refuse(std::to_string(rows_written_) + " rows came, expected " +
                         std::to_string(shape_.rows));
    }

  private:
    OutputFile file_;
    Shape shape_;
    Type type_;
    std::int64_t rows_written_ = 0;
};

}  // namespace

void require_writable(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options) {
    if (options.chunk || options.deflate != 0 || options.shuffle || target.append ||
        !target.dataset.empty()) {
        throw Error(ErrorCode::usage, target.shown +
                                          ": a NumPy file has no chunks, compression or datasets; write HDF5 "
                                          "for those");
    }
    (void)header_text(shape, type, target.shown);
}

std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options) {
    require_writable(target, shape, type, options);
    return std::make_unique<NpyWriter>(target, shape, type);
}

}  // namespace gpumat::formats::npy
