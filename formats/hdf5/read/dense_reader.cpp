#include "formats/hdf5/read/dense_reader.hpp"

#include <algorithm>

#include "core/numbers/convert.hpp"
#include "core/numbers/transpose.hpp"
#include "core/numbers/whole.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::int64_t kPanelBytes = std::int64_t{16} << 20;

/// The last multiple of `step` that is not after `position`.
std::int64_t first_edge(std::int64_t position, std::int64_t step) {
    return position - position % step;
}

Block intersection(const Block& a, const Block& b) {
    const std::int64_t row = std::max(a.row, b.row);
    const std::int64_t col = std::max(a.col, b.col);
    return {row, col, std::min(a.row + a.rows, b.row + b.rows) - row,
            std::min(a.col + a.cols, b.col + b.cols) - col};
}

}  // namespace

DenseReader::DenseReader(const Source& source, const ReadOptions& options, Type type)
    : source_(source),
      type_(type),
      threads_(options.threads),
      storage_(open_storage(source, std::get<Dense>(source.where), options)) {}

void DenseReader::read(const Block& block, const MutableMatrixView& out) {
    if (block.rows == 0 || block.cols == 0) return;
    const Block rect = source_.reversed ? Block{block.col, block.row, block.cols, block.rows} : block;
    if (only_copies()) {
        storage_->read(rect, out.data, out.ld * static_cast<std::int64_t>(size_of(out.type)));
        return;
    }
    const Shape tile = tile_for(rect.shape());
    for (std::int64_t row = first_edge(rect.row, tile.rows); row < rect.row + rect.rows; row += tile.rows) {
        for (std::int64_t col = first_edge(rect.col, tile.cols); col < rect.col + rect.cols; col += tile.cols)
            read_tile(intersection(rect, {row, col, tile.rows, tile.cols}), rect, out);
    }
}

std::uint64_t DenseReader::working_bytes(std::int64_t most_elements) const {
    if (only_copies() || source_.stored.rows == 0 || source_.stored.cols == 0)
        return storage_->working_bytes();
    const Shape tile = tile_for(source_.stored);
    const auto elements = static_cast<std::uint64_t>(std::min(
        most_elements, std::min(tile.rows, source_.stored.rows) * std::min(tile.cols, source_.stored.cols)));
    const bool twice = source_.reversed && converts() && !source_.element.wide;
    const std::uint64_t unpacked = source_.packing ? sizeof(double) : 0;
    const std::uint64_t transposed = !twice            ? 0
                                     : source_.packing ? sizeof(double)
                                                       : source_.element.memory_bytes;
    return storage_->working_bytes() + elements * (source_.element.memory_bytes + unpacked + transposed);
}

/// The pieces in which a rectangle is converted or transposed: whole chunks, or full-width panels
/// of a bounded size.
Shape DenseReader::tile_for(const Shape& rect) const {
    const auto* dense = std::get_if<Dense>(&source_.where);
    const bool chunked = dense != nullptr && dense->layout == H5D_CHUNKED;
    const Shape grain = chunked ? dense->chunk : Shape{1, 1};
    const auto element =
        static_cast<std::int64_t>(source_.packing ? sizeof(double) : source_.element.memory_bytes);
    const std::int64_t most = kPanelBytes / element;
    const std::int64_t cols = round_down(std::min(rect.cols, most / std::min(grain.rows, most)), grain.cols);
    const std::int64_t rows = round_down(std::max<std::int64_t>(1, most / std::min(cols, most)), grain.rows);
    return {rows, cols};
}

MatrixView DenseReader::unpacked(const MatrixView& stored) {
    const std::int64_t count = stored.shape.elements();
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
    if (unpacked_.size() < bytes) unpacked_ = Buffer(bytes);
    unpack(*source_.packing, stored.data, count, reinterpret_cast<double*>(unpacked_.data()), threads_,
           source_.name);
    return {Type::f64, stored.shape, stored.ld, unpacked_.data()};
}

/// Reads `tile`, a part of `rect`, and delivers it where it belongs in `out`, which `rect` fills.
void DenseReader::read_tile(const Block& tile, const Block& rect, const MutableMatrixView& out) {
    const auto element = static_cast<std::int64_t>(source_.element.memory_bytes);
    const std::size_t bytes = static_cast<std::size_t>(tile.rows * tile.cols * element);
    if (scratch_.size() < bytes) scratch_ = Buffer(bytes);
    storage_->read(tile, scratch_.data(), tile.cols * element);

    const Block within{tile.row - rect.row, tile.col - rect.col, tile.rows, tile.cols};
    const Block place = source_.reversed ? Block{within.col, within.row, within.cols, within.rows} : within;
    const MutableMatrixView part{
        out.type, place.shape(), out.ld,
        out.data + (place.row * out.ld + place.col) * static_cast<std::int64_t>(size_of(out.type))};
    const Block shown = source_.reversed ? Block{tile.col, tile.row, tile.cols, tile.rows} : tile;
    if (source_.element.wide) {
        narrow(source_.element, scratch_.data(), source_.reversed, part, shown, source_.name, threads_);
        return;
    }
    MatrixView stored{source_.element.type, tile.shape(), tile.cols, scratch_.data()};
    if (source_.packing) stored = unpacked(stored);
    if (!source_.reversed) {
        convert(stored, part, source_.name, threads_, shown);
    } else if (!converts()) {
        transpose_into(stored, part, threads_);
    } else {
        const std::size_t needed = static_cast<std::size_t>(tile.rows * tile.cols) * size_of(stored.type);
        if (transposed_.size() < needed) transposed_ = Buffer(needed);
        const MutableMatrixView transposed{stored.type, part.shape, part.shape.cols, transposed_.data()};
        transpose_into(stored, transposed, threads_);
        convert(transposed, part, source_.name, threads_, shown);
    }
}

}  // namespace gpumat::formats::hdf5
