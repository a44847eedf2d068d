// transpose, GPU level `per-element`: one thread an element, in blocks of K×K threads.
//
// New: both dimensions are parallel, so the device is full for any shape. It removes the shortage of threads.
// Traffic: the warp reads neighbours of 32 / K rows (coalesced) and writes down K columns, 32 / K elements to
// a sector: 16 sectors at K = 16 where 4 would do. What limits it: those writes, and one element in flight a
// thread. K is the parameter `tile`. Source: the course's ladder (11.47 ms on a Tegra; 5.3 GB/s at 4000² on
// a GTX 280).
//
// The rows of tiles that exceed the grid's 65535 are reached by striding.
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr std::int64_t kMaxGridY = 65535;

/// Thread (x, y) of block (bx, by) moves element (by·K + y, bx·K + x).
template <class T>
__global__ void per_element_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                                   std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch) {
    const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
    if (j >= cols) return;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; i < rows;
         i += stride) {
        out[j * out_pitch + i] = in[i * in_pitch + j];
    }
}

}  // namespace

Launch prepare_per_element(const Problem& problem, const Operands& operands, const Device&) {
    const int tile = parameter_number(per_element_parameters(), problem, "tile");
    const std::int64_t grid_x = (problem.n + tile - 1) / tile;
    const std::int64_t grid_y = std::min((problem.m + tile - 1) / tile, kMaxGridY);
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("per-element",
                           {.grid = dim3(static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)),
                            .block = dim3(static_cast<unsigned>(tile), static_cast<unsigned>(tile))},
                           per_element_kernel<T>, operands.a.as<T>(), operands.c.as<T>(), problem.m,
                           problem.n, operands.a.pitch, operands.c.pitch);
    });
}

}  // namespace gpumat::transpose::gpu
