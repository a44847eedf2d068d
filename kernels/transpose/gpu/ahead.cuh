#pragma once

// Asking L2 for tiles before the blocks that read them start.
#include <cstdint>

#include "kernels/transpose/gpu/order.cuh"

namespace gpumat::transpose::gpu {

/// Asks L2 for the tile that comes `ahead` places after this block's in the order: ROWS rows of ROW_BYTES, as
/// far as they lie in the matrix of `rows` rows of `row_bytes`, a multiple of 128. The lines are to leave L2
/// last, as with Cache::keep. A block calls this once its own loads are on their way. Does nothing below
/// compute capability 8.0.
template <int ROWS, int ROW_BYTES>
__device__ __forceinline__ void ask_ahead(const BandOrder& order, unsigned ahead, const void* matrix,
                                          std::int64_t rows, std::int64_t row_bytes) {
#if __CUDA_ARCH__ >= 800
    constexpr unsigned kLines = ROW_BYTES / kLine_bytes;  // of a row of the tile
    static_assert(ROW_BYTES % kLine_bytes == 0);
    if (threadIdx.x >= ROWS * kLines || blockIdx.x + ahead >= gridDim.x) return;
    const uint2 at = order.tile(blockIdx.x + ahead);
    const std::int64_t top = std::int64_t{at.y} * ROWS;
    const std::int64_t left = std::int64_t{at.x} * ROW_BYTES + threadIdx.x % kLines * kLine_bytes;
    if (left >= row_bytes) return;
    const auto* const column = static_cast<const unsigned char*>(matrix) + left;
    for (unsigned r = threadIdx.x / kLines; r < ROWS && top + r < rows; r += blockDim.x / kLines)
        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(column + (top + r) * row_bytes));
#endif
}

}  // namespace gpumat::transpose::gpu
