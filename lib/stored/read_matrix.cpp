#include "lib/stored/read_matrix.hpp"

#include "core/numbers/blocks.hpp"
#include "lib/stored/read_in_blocks.hpp"

namespace gpumat {

void ReadMatrix::read_in_blocks(std::uint64_t room, const TakeBlock& take) {
    hash_ =
        gpumat::read_in_blocks(reader_, room, threads_, [&](const Block& block, const MatrixView& elements) {
            take(block, elements);
            bytes_read_ += block_bytes(block.shape(), size_of(elements.type));
        });
}

std::uint64_t ReadMatrix::least_for_blocks() const {
    return gpumat::least_for_blocks(reader_.header());
}

}  // namespace gpumat
