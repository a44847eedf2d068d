// transpose baseline `copy-shared`: the copy through a shared tile with a barrier, in the form of `padded`
// but not transposed. Beside `copy` it shows what the tile and its barrier cost by themselves.
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/baselines.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kTile = 32;
constexpr int kBlockRows = 8;
constexpr int kPitch = kTile + 1;
constexpr std::int64_t kMaxGridY = 65535;
static_assert(kTile % kBlockRows == 0, "every thread moves the same number of rows of the tile");

template <class T>
__global__ void copy_shared_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                                   std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch) {
    __shared__ T tile[kTile * kPitch];
    const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * kTile + threadIdx.x;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * kTile;
    for (std::int64_t top = static_cast<std::int64_t>(blockIdx.y) * kTile; top < rows; top += stride) {
#pragma unroll
        for (int y = threadIdx.y; y < kTile; y += kBlockRows) {
            if (top + y < rows && j < cols) tile[y * kPitch + threadIdx.x] = in[(top + y) * in_pitch + j];
        }
        __syncthreads();  // as the transpose needs it; here each thread reads back what it wrote itself
#pragma unroll
        for (int y = threadIdx.y; y < kTile; y += kBlockRows) {
            if (top + y < rows && j < cols) out[(top + y) * out_pitch + j] = tile[y * kPitch + threadIdx.x];
        }
        __syncthreads();
    }
}

}  // namespace

Launch prepare_copy_shared(const Problem& problem, const Operands& operands, const Device&) {
    const std::int64_t grid_x = (problem.n + kTile - 1) / kTile;
    const std::int64_t grid_y = std::min((problem.m + kTile - 1) / kTile, kMaxGridY);
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("copy-shared",
                           {.grid = dim3(static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)),
                            .block = dim3(kTile, kBlockRows)},
                           copy_shared_kernel<T>, operands.a.as<T>(), operands.c.as<T>(), problem.m,
                           problem.n, operands.a.pitch, operands.c.pitch);
    });
}

}  // namespace gpumat::transpose::gpu
