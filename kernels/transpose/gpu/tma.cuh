#pragma once

// The kernel of `tma`. See tma.cu.
#include <cstdint>

#include "kernels/common/access.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/transpose/gpu/order.cuh"
#include "kernels/transpose/gpu/tuning.hpp"
#include "kernels/transpose/gpu/turn.cuh"

namespace gpumat::transpose::gpu {

/// The sizes that follow from a plan for elements of type T.
///
/// A stage holds kBoxesX boxes of the input side by side, each 128 bytes by kRows rows. A staged output tile
/// holds kBoxesY boxes, each 128 bytes by kCols rows of the output.
template <class T, class PLAN>
struct TmaTile {
    static constexpr int kPack = 16 / static_cast<int>(sizeof(T));  ///< elements a word of 16 bytes
    static constexpr int kWordsX = PLAN::kBoxesX * 8;               ///< words in a row of the tile
    static constexpr int kWordsY = PLAN::kBoxesY * 8;               ///< words in a row of the output's tile
    static constexpr int kCols = kWordsX * kPack;
    static constexpr int kRows = kWordsY * kPack;
    static constexpr int kSquares = kWordsX * kWordsY / PLAN::kThreads;  ///< squares a thread
    static constexpr int kBoxIn_bytes = 128 * kRows;
    static constexpr int kBoxOut_bytes = 128 * kCols;
    static constexpr int kStage_bytes = PLAN::kBoxesX * kBoxIn_bytes;
    static constexpr int kOut_bytes = PLAN::kStaged ? PLAN::kBoxesY * kBoxOut_bytes : 0;
    /// A swizzled box lies at a multiple of 1024 bytes; dynamic shared memory need not start at one.
    static constexpr std::size_t kShared_bytes =
        1024 + static_cast<std::size_t>(PLAN::kStages) * kStage_bytes + kOut_bytes;

    static_assert(kRows <= 256 && (!PLAN::kStaged || kCols <= 256), "a box has at most 256 rows");
    static_assert(kWordsX * kWordsY % PLAN::kThreads == 0, "all threads have the same work");
    static_assert(kBoxIn_bytes % 1024 == 0 && kBoxOut_bytes % 1024 == 0,
                  "boxes keep the swizzle's alignment");

    /// The square (x, y) that this thread takes in turn k. A phase of eight lanes has eight x and, where an
    /// element is less than a word, eight y: in the swizzled input box and in the swizzled output box its
    /// words then lie in different banks. A warp covers whole runs of four words in y, so that direct writes
    /// are full sectors.
    static __device__ __forceinline__ uint2 square(int k) {
        const unsigned id = threadIdx.x + k * PLAN::kThreads;
        const unsigned x = id / 8 / kWordsY * 8 + id % 8;
        const unsigned y = id / 8 % kWordsY;
        return make_uint2(x, kPack == 1 ? y : y ^ id % 8);
    }

    /// Where word (x, y·kPack + r) of the tile lies in a stage, and word y of tile column c in the output
    /// tile.
    static __device__ __forceinline__ unsigned in_slot(unsigned x, unsigned row) {
        return x / 8 * (kBoxIn_bytes / 16) + row * 8 + (x % 8 ^ row % 8);
    }
    static __device__ __forceinline__ unsigned out_slot(unsigned c, unsigned y) {
        return y / 8 * (kBoxOut_bytes / 16) + c * 8 + (y % 8 ^ c % 8);
    }
};

/// Persistent: block b takes the tiles at places b, b + gridDim.x … of the order.
template <class T, class PLAN>
__global__ void __launch_bounds__(PLAN::kThreads, 1)
    tma_kernel(const __grid_constant__ CUtensorMap in_map, const __grid_constant__ CUtensorMap out_map,
               uint4* __restrict__ out, std::int64_t rows, std::int64_t cols, BandOrder order) {
    using Tile = TmaTile<T, PLAN>;
    constexpr int kStages = PLAN::kStages;
    extern __shared__ unsigned char shared[];
    __shared__ std::uint64_t full[kStages];
    unsigned char* stages = shared + (1024 - shared_address(shared) % 1024) % 1024;
    [[maybe_unused]] uint4* out_tile = reinterpret_cast<uint4*>(stages + kStages * Tile::kStage_bytes);
    const bool leads = threadIdx.x == 0;

    const auto start_load = [&](unsigned index, int stage) {
        if (index >= order.tiles()) return;
        const uint2 at = order.tile(index);
        arrive_expecting(&full[stage], Tile::kStage_bytes);
#pragma unroll
        for (int box = 0; box < PLAN::kBoxesX; ++box) {
            load_box_async(stages + stage * Tile::kStage_bytes + box * Tile::kBoxIn_bytes, &in_map,
                           static_cast<int>((at.x * PLAN::kBoxesX + box) * 32),
                           static_cast<int>(at.y * Tile::kRows), &full[stage]);
        }
    };

    if (leads) {
        prefetch_map(&in_map);
        for (int stage = 0; stage < kStages; ++stage) init_barrier(&full[stage], 1);
        publish_barriers();
        for (int stage = 0; stage < kStages; ++stage) start_load(blockIdx.x + stage * gridDim.x, stage);
    }
    __syncthreads();  // the barriers are prepared

    int stage = 0;
    unsigned parity = 0;
    for (unsigned index = blockIdx.x; index < order.tiles(); index += gridDim.x) {
        uint4 words[Tile::kSquares][Tile::kPack];
        wait_barrier(&full[stage], parity);
        const auto* tile = reinterpret_cast<const uint4*>(stages + stage * Tile::kStage_bytes);
#pragma unroll
        for (int k = 0; k < Tile::kSquares; ++k) {
            const uint2 at = Tile::square(k);
#pragma unroll
            for (int r = 0; r < Tile::kPack; ++r)
                words[k][r] = tile[Tile::in_slot(at.x, at.y * Tile::kPack + r)];
        }
        if (PLAN::kStaged && leads) wait_stores_read<0>();
        __syncthreads();  // the stage is read, and the stores of the last tile have left the output tile
        if (leads) start_load(index + kStages * gridDim.x, stage);

        const uint2 place = order.tile(index);
#pragma unroll
        for (int k = 0; k < Tile::kSquares; ++k) {
            const uint2 at = Tile::square(k);
            turn<sizeof(T)>(words[k]);
            if constexpr (PLAN::kStaged) {
#pragma unroll
                for (int r = 0; r < Tile::kPack; ++r)
                    out_tile[Tile::out_slot(at.x * Tile::kPack + r, at.y)] = words[k][r];
            } else {
                const std::int64_t pitch = rows / Tile::kPack;
                const std::int64_t c = std::int64_t{place.x} * Tile::kCols + at.x * Tile::kPack;
                const std::int64_t y = std::int64_t{place.y} * Tile::kWordsY + at.y;
                if (c < cols && y < pitch) {  // rows and columns are whole words: a square is in or out
#pragma unroll
                    for (int r = 0; r < Tile::kPack; ++r)
                        store_word<PLAN::kStore>(out + (c + r) * pitch + y, words[k][r]);
                }
            }
        }
        if constexpr (PLAN::kStaged) {
            publish_shared();
            __syncthreads();  // the output tile is whole before the copy engine reads it
            if (leads) {
#pragma unroll
                for (int box = 0; box < PLAN::kBoxesY; ++box) {
                    store_box_async(&out_map, static_cast<int>((place.y * PLAN::kBoxesY + box) * 32),
                                    static_cast<int>(place.x * Tile::kCols),
                                    reinterpret_cast<unsigned char*>(out_tile) + box * Tile::kBoxOut_bytes);
                }
                commit_stores();
            }
        }
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
    if (PLAN::kStaged && leads) wait_stores_read<0>();  // shared memory lives until its stores have read it
}

}  // namespace gpumat::transpose::gpu
