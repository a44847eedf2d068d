// Reads a part of L2 again and again, past L1.
#include "kernels/probe/measure.hpp"
#include "kernels/probe/timing.cuh"

namespace gpumat::probe {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksEach = 4;
constexpr int kPasses = 64;
constexpr int kInFlight = 4;

__global__ void __launch_bounds__(kThreads) l2_kernel(const uint4* in, std::int64_t words, uint4* out) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
    uint4 all = {};
    for (int pass = 0; pass < kPasses; ++pass) {
        std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
        for (; i + (kInFlight - 1) * step < words; i += kInFlight * step) {
            uint4 word[kInFlight];
#pragma unroll
            for (int k = 0; k < kInFlight; ++k) {
                asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(word[k].x), "=r"(word[k].y), "=r"(word[k].z), "=r"(word[k].w)
                             : "l"(in + i + k * step));
            }
#pragma unroll
            for (int k = 0; k < kInFlight; ++k) {
                all.x ^= word[k].x;
                all.y ^= word[k].y;
                all.z ^= word[k].z;
                all.w ^= word[k].w;
            }
        }
    }
    if ((all.x & all.y & all.z & all.w) == 0xffffffffU) *out = all;  // never: the memory holds zeros
}

}  // namespace

double l2_bytes_per_s(Gpu& gpu) {
    const auto blocks = static_cast<unsigned>(gpu.info().multiprocessors * kBlocksEach);
    // A quarter of the cache, in whole rounds of all threads.
    const std::int64_t round = static_cast<std::int64_t>(blocks) * kThreads * kInFlight;
    const auto quarter = static_cast<std::int64_t>(gpu.info().l2_bytes / 4 / sizeof(uint4));
    const std::int64_t words = std::max<std::int64_t>(1, quarter / round) * round;
    const DeviceMemory memory = gpu.allocate(static_cast<std::size_t>(words) * sizeof(uint4));
    const DeviceMemory out = gpu.allocate(sizeof(uint4));
    gpu.fill(memory.data(), 0, memory.bytes());
    const double ms = best_ms(gpu, [&](cudaStream_t stream) {
        l2_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const uint4*>(memory.data()), words,
                                                   static_cast<uint4*>(out.data()));
    });
    return static_cast<double>(memory.bytes()) * kPasses / ms * 1e3;
}

}  // namespace gpumat::probe
