// Threads that take different ways through a switch: the ways of one warp run one after the other, those of
// different warps side by side. Each way is code of its own, because its instructions hold another constant.
#include "kernels/probe/measure.hpp"
#include "kernels/probe/timing.cuh"

namespace gpumat::probe {
namespace {

constexpr int kMostPaths = 32;
constexpr int kThreads = 256;
constexpr int kBlocksEach = 4;  // a multiprocessor
constexpr int kSteps = 512;
constexpr int kUnrolled = 8;

template <int PATH>
__device__ __noinline__ float walk(float x, int steps) {
    for (int i = 0; i < steps; ++i) {
#pragma unroll
        for (int k = 0; k < kUnrolled; ++k) {
            asm volatile("{ .reg .f32 c; mov.b32 c, %1; fma.rn.f32 %0, %0, c, c; }"
                         : "+f"(x)
                         : "n"(0x3f000000 + PATH));
        }
    }
    return x;
}

template <int PATH>
__device__ __forceinline__ float choose(int path, float x, int steps) {
    if (path == PATH) return walk<PATH>(x, steps);
    if constexpr (PATH + 1 < kMostPaths) {
        return choose<PATH + 1>(path, x, steps);
    } else {
        return x;
    }
}

__global__ void __launch_bounds__(kThreads)
    branch_kernel(int paths, bool inside_warps, int steps, float* out) {
    const unsigned warp = (blockIdx.x * kThreads + threadIdx.x) / 32;
    const int id = static_cast<int>(inside_warps ? threadIdx.x % 32 : warp);
    const float x = choose<0>(id % paths, static_cast<float>(threadIdx.x), steps);
    if (x == 123456.0F) *out = x;  // never: the sums come close to a fixed point
}

}  // namespace

double branch_ms(Gpu& gpu, int paths, bool inside_warps) {
    const DeviceMemory out = gpu.allocate(sizeof(float));
    const auto blocks = static_cast<unsigned>(gpu.info().multiprocessors * kBlocksEach);
    return best_ms(gpu, [&](cudaStream_t stream) {
        branch_kernel<<<blocks, kThreads, 0, stream>>>(paths, inside_warps, kSteps,
                                                       static_cast<float*>(out.data()));
    });
}

}  // namespace gpumat::probe
