#pragma once

// The kernel of `tma`. See tma.cu.
#include <cstdint>

#include "kernels/common/access.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/transpose/gpu/order.hpp"
#include "kernels/transpose/gpu/register_transpose.cuh"
#include "kernels/transpose/gpu/tuning.hpp"

namespace gpumat::transpose::gpu {

/// The sizes that follow from a plan for elements of type T. A tile comes as kBoxesX boxes side by side, each
/// 128 bytes by kRows rows.
template <class T, class PLAN>
struct TmaTile {
    static constexpr int kPack = 16 / static_cast<int>(sizeof(T));  ///< elements a word of 16 bytes
    static constexpr int kWordsX = PLAN::kBoxesX * 8;               ///< words in a row of the tile
    static constexpr int kWordsY = PLAN::kBoxesY * 8;               ///< words in a row of the output's tile
    static constexpr int kCols = kWordsX * kPack;
    static constexpr int kRows = kWordsY * kPack;
    static constexpr int kSquares = kWordsX * kWordsY / PLAN::kThreads;  ///< squares a thread
    static constexpr int kBox_bytes = 128 * kRows;
    static constexpr int kTile_bytes = PLAN::kBoxesX * kBox_bytes;
    /// A swizzled box lies at a multiple of 1024 bytes; dynamic shared memory need not start at one.
    static constexpr std::size_t kShared_bytes = 1024 + kTile_bytes;

    static Tiling tiling(std::int64_t rows, std::int64_t cols) {
        return {rows, cols, static_cast<int>(sizeof(T)), kRows, kCols};
    }

    static_assert(kRows <= 256, "a box has at most 256 rows");
    static_assert(kWordsX * kWordsY % PLAN::kThreads == 0, "all threads have the same work");
    static_assert(kBox_bytes % 1024 == 0, "boxes keep the swizzle's alignment");

    /// The square (x, y) that this thread takes in turn k. A phase of eight lanes has eight x and, where an
    /// element is less than a word, eight y: in the swizzled box its words then lie in different banks. A
    /// warp covers whole runs of four words in y, so that its writes are full sectors.
    static __device__ __forceinline__ uint2 square(int k) {
        const unsigned id = threadIdx.x + k * PLAN::kThreads;
        const unsigned x = id / 8 / kWordsY * 8 + id % 8;
        const unsigned y = id / 8 % kWordsY;
        return make_uint2(x, kPack == 1 ? y : y ^ id % 8);
    }

    /// Where word x of row `row` of the tile lies.
    static __device__ __forceinline__ unsigned slot(unsigned x, unsigned row) {
        return x / 8 * (kBox_bytes / 16) + row * 8 + (x % 8 ^ row % 8);
    }
};

/// A block takes the tile at its place in the order.
template <class T, class PLAN>
__global__ void __launch_bounds__(PLAN::kThreads, resident_blocks(PLAN::kBlocks, PLAN::kThreads))
    tma_kernel(const __grid_constant__ CUtensorMap map, uint4* __restrict__ out, std::int64_t rows,
               std::int64_t cols, std::int64_t out_pitch, TileOrder order) {
    using Tile = TmaTile<T, PLAN>;
    extern __shared__ unsigned char shared[];
    __shared__ std::uint64_t full;
    unsigned char* tile = shared + (1024 - shared_address(shared) % 1024) % 1024;
    const TilePlace place = order.tile(place_of_block());
    if (!order.holds(place)) return;
    if (threadIdx.x == 0) {
        prefetch_map(&map);
        init_barrier(shared_address(&full), 1);
        publish_barriers();
        arrive_expecting(shared_address(&full), Tile::kTile_bytes);
#pragma unroll
        for (int box = 0; box < PLAN::kBoxesX; ++box) {
            load_box_async<Cache::keep>(shared_address(tile) + box * Tile::kBox_bytes, &map,
                                        static_cast<int>((place.x * PLAN::kBoxesX + box) * 32),
                                        static_cast<int>(place.y * Tile::kRows), shared_address(&full));
        }
    }
    __syncthreads();  // the barrier is prepared
    wait_barrier(shared_address(&full), 0);

    const auto* from = reinterpret_cast<const uint4*>(tile);
    uint4 words[Tile::kSquares][Tile::kPack];
#pragma unroll
    for (int k = 0; k < Tile::kSquares; ++k) {
        const uint2 at = Tile::square(k);
#pragma unroll
        for (int r = 0; r < Tile::kPack; ++r) words[k][r] = from[Tile::slot(at.x, at.y * Tile::kPack + r)];
    }
    const std::int64_t pitch = out_pitch / Tile::kPack;
#pragma unroll
    for (int k = 0; k < Tile::kSquares; ++k) {
        const uint2 at = Tile::square(k);
        transpose_registers<sizeof(T)>(words[k]);
        const std::int64_t c = std::int64_t{place.x} * Tile::kCols + at.x * Tile::kPack;
        const std::int64_t y = std::int64_t{place.y} * Tile::kWordsY + at.y;
        if (c < cols && y * Tile::kPack < rows) {  // rows and columns are whole words: a square is in or out
#pragma unroll
            for (int r = 0; r < Tile::kPack; ++r) out[(c + r) * pitch + y] = words[k][r];
        }
    }
}

}  // namespace gpumat::transpose::gpu
