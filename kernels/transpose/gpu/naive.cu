// transpose, GPU level `naive`: 32×8 threads move a 32×32 tile, four elements a thread, without shared
// memory.
//
// New: each thread moves four elements, so that index arithmetic and block start-up are paid once for four
// and four loads are in flight. It removes the one-element-a-thread overhead. Traffic: reads coalesce, 128
// bytes a warp for 4-byte elements; writes go down a column, 32 sectors a warp instead of four. What limits
// it: the writes; the four elements that share a sector meet in L2 at best. Source: Ruetsch and Micikevicius,
// "Optimizing Matrix Transpose in CUDA" (18.8 / 55.3 GB/s on M2050 / K20c).
//
// The rows of tiles that exceed the grid's 65535 are reached by striding.
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kTile = 32;
constexpr int kBlockRows = 8;
constexpr std::int64_t kMaxGridY = 65535;
static_assert(kTile % kBlockRows == 0, "every thread moves the same number of rows of the tile");

/// Thread (x, y) moves the elements of column x of the tile in rows y, y + 8, y + 16 and y + 24.
template <class T>
__global__ void naive_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                             std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch) {
    const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kTile + threadIdx.x;
    if (j >= cols) return;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * kTile;
    for (std::int64_t top = static_cast<std::int64_t>(blockIdx.y) * kTile; top < rows; top += stride) {
#pragma unroll
        for (int step = 0; step < kTile; step += kBlockRows) {
            const std::int64_t i = top + threadIdx.y + step;
            if (i < rows) out[j * out_pitch + i] = in[i * in_pitch + j];
        }
    }
}

}  // namespace

Launch prepare_naive(const Problem& problem, const Operands& operands, const Device&) {
    const std::int64_t grid_x = (problem.n + kTile - 1) / kTile;
    const std::int64_t grid_y = std::min((problem.m + kTile - 1) / kTile, kMaxGridY);
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("naive",
                           {.grid = dim3(static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)),
                            .block = dim3(kTile, kBlockRows)},
                           naive_kernel<T>, operands.a.as<T>(), operands.c.as<T>(), problem.m, problem.n,
                           operands.a.pitch, operands.c.pitch);
    });
}

}  // namespace gpumat::transpose::gpu
