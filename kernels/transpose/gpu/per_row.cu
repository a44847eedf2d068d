// transpose, GPU level `per-row`: one thread a row of the input.
//
// New: one dimension of parallelism. It removes the single thread: as many threads run as there are rows.
// Traffic: a warp reads 32 rows at one column, so each load touches 32 sectors (the next columns hit them in
// cache while they last), and writes 32 neighbours of one output row, which is coalesced. What limits it:
// scattered reads, and too few threads where the matrix is wide and low.
// The grid is strided over the rows, so that any height works. Source: the course's ladder (13.02 ms, Tegra).
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kMaxBlocks = 65535;

template <class T>
__global__ void per_row_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                               std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch) {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < rows;
         i += stride) {
        for (std::int64_t j = 0; j < cols; ++j) out[j * out_pitch + i] = in[i * in_pitch + j];
    }
}

}  // namespace

Launch prepare_per_row(const Problem& problem, const Operands& operands, const Device&) {
    const std::int64_t blocks = std::min((problem.m + kThreads - 1) / kThreads, kMaxBlocks);
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("per-row", {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads)},
                           per_row_kernel<T>, operands.a.as<T>(), operands.c.as<T>(), problem.m, problem.n,
                           operands.a.pitch, operands.c.pitch);
    });
}

}  // namespace gpumat::transpose::gpu
