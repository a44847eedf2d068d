// transpose, GPU level `diagonal`: `padded` with the blocks renumbered along diagonals.
//
// New: consecutive blocks take tiles along a diagonal, so that those in flight read different columns and
// write different rows at the same time. It removes partition camping: on devices of 2008, whose memory
// partitions were 256 bytes wide, the blocks of one tile row all wrote to one partition at sizes that are
// multiples of 512. Traffic: as `padded`. What limits it: as `padded`, plus the index arithmetic; and
// neighbours in memory are no longer in flight together. Devices since 2010 hash addresses over the
// partitions, so that there this rung shows what the remedy costs. Source: Ruetsch and Micikevicius,
// "Optimizing Matrix Transpose in CUDA" (80 GB/s at every size, GTX 280).
#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kTile = 32;
constexpr int kBlockRows = 8;
constexpr int kPitch = kTile + 1;
static_assert(kTile % kBlockRows == 0, "every thread moves the same number of rows of the tile");

/// Block b takes tile row b mod tiles_y; each turn through the tile rows starts one tile column further.
template <class T>
__global__ void diagonal_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                                std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch,
                                unsigned tiles_x, unsigned tiles_y) {
    __shared__ T tile[kTile * kPitch];
    const unsigned tile_y = blockIdx.x % tiles_y;
    const auto tile_x = static_cast<unsigned>((blockIdx.x / tiles_y + std::uint64_t{tile_y}) % tiles_x);
    const std::int64_t top = static_cast<std::int64_t>(tile_y) * kTile;
    const std::int64_t left = static_cast<std::int64_t>(tile_x) * kTile;
#pragma unroll
    for (int y = threadIdx.y; y < kTile; y += kBlockRows) {
        const std::int64_t i = top + y;
        const std::int64_t j = left + threadIdx.x;
        if (i < rows && j < cols) tile[y * kPitch + threadIdx.x] = in[i * in_pitch + j];
    }
    __syncthreads();  // the tile is whole before its columns are read
#pragma unroll
    for (int y = threadIdx.y; y < kTile; y += kBlockRows) {
        const std::int64_t i = top + threadIdx.x;
        const std::int64_t j = left + y;
        if (i < rows && j < cols) out[j * out_pitch + i] = tile[threadIdx.x * kPitch + y];
    }
}

}  // namespace

Launch prepare_diagonal(const Problem& problem, const Operands& operands, const Device&) {
    const auto tiles_x = static_cast<unsigned>((problem.n + kTile - 1) / kTile);
    const auto tiles_y = static_cast<unsigned>((problem.m + kTile - 1) / kTile);
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("diagonal", {.grid = dim3(tiles_x * tiles_y), .block = dim3(kTile, kBlockRows)},
                           diagonal_kernel<T>, operands.a.as<T>(), operands.c.as<T>(), problem.m, problem.n,
                           operands.a.pitch, operands.c.pitch, tiles_x, tiles_y);
    });
}

}  // namespace gpumat::transpose::gpu
