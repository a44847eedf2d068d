// transpose baseline `copy-strided`: the copy down the columns. Neighbouring threads move elements of
// neighbouring rows, so a warp's read and its write each touch 32 sectors. It shows what uncoalesced access
// costs on both sides (2.7 GB/s where a copy made 112 on a GTX 280).
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/baselines.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kMaxGridY = 65535;

/// Block (bx, by) moves rows bx·128 … bx·128 + 127 of column by.
template <class T>
__global__ void copy_strided_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                                    std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= rows) return;
    for (std::int64_t j = blockIdx.y; j < cols; j += gridDim.y) out[i * out_pitch + j] = in[i * in_pitch + j];
}

}  // namespace

Launch prepare_copy_strided(const Problem& problem, const Operands& operands, const Device&) {
    const std::int64_t grid_x = (problem.m + kThreads - 1) / kThreads;
    const std::int64_t grid_y = std::min(problem.n, kMaxGridY);
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("copy-strided",
                           {.grid = dim3(static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)),
                            .block = dim3(kThreads)},
                           copy_strided_kernel<T>, operands.a.as<T>(), operands.c.as<T>(), problem.m,
                           problem.n, operands.a.pitch, operands.c.pitch);
    });
}

}  // namespace gpumat::transpose::gpu
