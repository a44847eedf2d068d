#include "formats/hdf5/write/matlab.hpp"

#include <algorithm>
#include <utility>

#include "core/memory.hpp"
#include "core/numbers/transpose.hpp"
#include "core/numbers/whole.hpp"
#include "formats/hdf5/file/element.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;  ///< that are transposed at a time, or a chunk

const char* matlab_class_of(Type type) {
    switch (type) {
        case Type::i8:
            return "int8";
        case Type::i16:
            return "int16";
        case Type::i32:
            return "int32";
        case Type::i64:
            return "int64";
        case Type::u8:
            return "uint8";
        case Type::u16:
            return "uint16";
        case Type::u32:
            return "uint32";
        case Type::u64:
            return "uint64";
        case Type::f32:
        case Type::c64:
            return "single";
        case Type::f64:
        case Type::c128:
            return "double";
        default:
            return nullptr;
    }
}

/// Whole chunks of a block of the matrix, or columns.
Shape piece_of(const Shape& block, const Shape& chunk) {
    const std::int64_t rows = round_down(
        std::min(std::max(block.rows, chunk.rows), kPieceElements / std::min(chunk.cols, kPieceElements)),
        chunk.rows);
    return {rows, round_down(kPieceElements / std::min(rows, kPieceElements), chunk.cols)};
}

class ReversedWriter final : public Writer {
  public:
    ReversedWriter(std::unique_ptr<Writer> stored, Type type, int threads)
        : stored_(std::move(stored)), type_(type), threads_(threads) {}

    [[nodiscard]] BlockOrder order() const override { return BlockOrder::any; }
    [[nodiscard]] Shape grain() const override { return stored_->grain().transposed(); }
    [[nodiscard]] std::vector<std::string> left_out() const override { return stored_->left_out(); }
    void annotate(const std::vector<std::pair<std::string, std::string>>& attributes) override {
        stored_->annotate(attributes);
    }
    void finish() override { stored_->finish(); }

    void write(const Block& block, const MatrixView& in) override {
        const Shape piece = piece_of(block.shape(), grain());
        const auto end_of = [](std::int64_t at, std::int64_t step, std::int64_t end) {
            return std::min(at - at % step + step, end);
        };
        const auto element = static_cast<std::int64_t>(size_of(type_));
        for (std::int64_t col = block.col; col < block.col + block.cols;) {
            const std::int64_t cols = end_of(col, piece.cols, block.col + block.cols) - col;
            for (std::int64_t row = block.row; row < block.row + block.rows;) {
                const std::int64_t rows = end_of(row, piece.rows, block.row + block.rows) - row;
                const std::byte* const first =
                    in.data + ((row - block.row) * in.ld + col - block.col) * element;
                write_piece({row, col, rows, cols}, {type_, {rows, cols}, in.ld, first});
                row += rows;
            }
            col += cols;
        }
    }

  private:
    void write_piece(const Block& piece, const MatrixView& in) {
        const std::size_t bytes = static_cast<std::size_t>(piece.rows * piece.cols) * size_of(type_);
        if (transposed_.size() < bytes) transposed_ = Buffer(bytes);
        const Shape shape = in.shape.transposed();
        transpose_into(in, MutableMatrixView{type_, shape, shape.cols, transposed_.data()}, threads_);
        stored_->write({piece.col, piece.row, piece.cols, piece.rows},
                       {type_, shape, shape.cols, transposed_.data()});
    }

    std::unique_ptr<Writer> stored_;
    Type type_;
    int threads_;
    Buffer transposed_;
};

}  // namespace

std::string matlab_header() {
    constexpr std::size_t kTextBytes = 116;
    std::string header = "MATLAB 7.3 MAT-file, Platform: any, Created by: gpumat HDF5 schema 1.00 .";
    header.resize(kTextBytes, ' ');
    header.append(8, '\0');                 // no data of subsystems
    header.append({'\0', '\2', 'I', 'M'});  // the version, and the order of its bytes
    header.resize(kMatlabHeaderBytes, '\0');
    return header;
}

void require_matlab(const Shape& shape, Type type, const std::string& what) {
    if (matlab_class_of(type) == nullptr) {
        throw Error(ErrorCode::unsupported, what + ": MATLAB has no class for " + std::string(name_of(type)) +
                                                "; --type names another type");
    }
    if (shape.rows == 0 || shape.cols == 0)
        throw Error(ErrorCode::unsupported,
                    what + ": a matrix of " + to_string(shape) + " is not written in MATLAB's layout");
}

Handle matlab_type_of(Type type) {
    if (!is_complex(type)) return hdf5_type_of(type);
    const hid_t part = type == Type::c64 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
    Handle pair(H5Tcreate(H5T_COMPOUND, size_of(type)));
    H5Tinsert(pair.id(), "real", 0, part);
    H5Tinsert(pair.id(), "imag", size_of(type) / 2, part);
    return pair;
}

void mark_for_matlab(hid_t dataset, Type type, bool logical, const std::string& what) {
    const std::string name = logical ? "logical" : matlab_class_of(type);
    const Handle text(H5Tcopy(H5T_C_S1));
    H5Tset_size(text.id(), name.size());
    const Handle one = take(H5Screate(H5S_SCALAR), ErrorCode::output, what);
    const auto write = [&](const char* attribute, hid_t kind, const void* value) {
        const Handle made = take(H5Acreate2(dataset, attribute, kind, one.id(), H5P_DEFAULT, H5P_DEFAULT),
                                 ErrorCode::output, what);
        require(H5Awrite(made.id(), kind, value), ErrorCode::output, what);
    };
    write("MATLAB_class", text.id(), name.data());
    constexpr int kDecodes = 1;
    if (logical) write("MATLAB_int_decode", H5T_NATIVE_INT, &kDecodes);
}

std::unique_ptr<Writer> reversed_writer(std::unique_ptr<Writer> stored, Type type, int threads) {
    return std::make_unique<ReversedWriter>(std::move(stored), type, threads);
}

std::uint64_t reversing_bytes(const Shape& shape, Type type, const Shape& chunk) {
    const std::int64_t most = std::max(kPieceElements, chunk.elements());
    return static_cast<std::uint64_t>(std::min(shape.elements(), most)) * size_of(type);
}

}  // namespace gpumat::formats::hdf5
