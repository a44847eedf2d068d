#pragma once

// Prefetching tiles into L2 before the blocks that read them start.
#include <cstdint>

#include "kernels/transpose/gpu/order.hpp"

namespace gpumat::transpose::gpu {

/// Prefetches into L2 the tile that comes ahead of a place in the order: ROWS rows of ROW_BYTES of a matrix
/// whose rows are `row_bytes`, a multiple of 128, apart. The lines are to leave L2 last, as with Cache::keep.
/// A block calls this once its own loads are on their way; a tile that is not wholly in the matrix is not
/// prefetched. Does nothing below compute capability 8.0.
template <int ROWS, int ROW_BYTES, int THREADS, Places PLACES>
__device__ __forceinline__ void prefetch_tile(const TileOrder& order, const Place& place, const void* matrix,
                                              std::int64_t row_bytes) {
#if __CUDA_ARCH__ >= 800
    constexpr int kLines = ROW_BYTES / kLine_bytes;  // of a row of the tile
    static_assert(ROW_BYTES % kLine_bytes == 0);
    static_assert(ROWS * kLines <= THREADS, "a thread prefetches one line");
    if (threadIdx.x >= ROWS * kLines) return;
    const TilePlace at = order.template tile_ahead<PLACES>(place);
    if (!order.holds_all(at)) return;
    const std::int64_t row = std::int64_t{at.y} * ROWS + threadIdx.x / kLines;
    const std::int64_t byte = std::int64_t{at.x} * ROW_BYTES + threadIdx.x % kLines * kLine_bytes;
    const auto* const line = static_cast<const unsigned char*>(matrix) + row * row_bytes + byte;
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(line));
#endif
}

}  // namespace gpumat::transpose::gpu
