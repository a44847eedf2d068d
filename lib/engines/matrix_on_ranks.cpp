#include "lib/engines/matrix_on_ranks.hpp"

#include <algorithm>
#include <cstring>

namespace gpumat::engines {

void MatrixOnRanks::read(const Block& block, const MutableMatrixView& into) {
    const std::int64_t row = block.cols * layout_.element();
    if (ranks_.rank() != 0) std::memset(into.data, 0, static_cast<std::size_t>(block.rows * row));
    const std::int64_t step = rows_at_once(layout_, block);
    for (std::int64_t at = 0; at < block.rows; at += step)
        fetch(ranks_, layout_, {block.row + at, block.col, std::min(step, block.rows - at), block.cols},
              blocks_, into.data + at * row);
}

void MatrixOnRanks::read_in_blocks(std::uint64_t /*room*/, const TakeBlock& take) {
    if (layout_.has_panels()) {
        const Block panel = layout_.panel(ranks_.rank());
        return take(panel, {layout_.type, panel.shape(), panel.cols, blocks_});
    }
    const std::int64_t edge = layout_.block;
    const Shape local = layout_.local(ranks_.rank());
    const std::int64_t first_row = layout_.row_of(ranks_.rank()) * edge;
    const std::int64_t first_col = layout_.col_of(ranks_.rank()) * edge;
    for (std::int64_t i = 0; i < local.rows; i += edge) {
        for (std::int64_t j = 0; j < local.cols; j += edge) {
            const Block block{first_row + i * layout_.grid.rows, first_col + j * layout_.grid.cols,
                              std::min(edge, local.rows - i), std::min(edge, local.cols - j)};
            take(block, {layout_.type, block.shape(), local.cols,
                         blocks_ + (i * local.cols + j) * layout_.element()});
        }
    }
}

}  // namespace gpumat::engines
