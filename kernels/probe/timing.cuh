#pragma once

#include <algorithm>

#include "kernels/device/cuda_check.cuh"
#include "kernels/device/cuda_stream.cuh"
#include "kernels/device/gpu.hpp"

namespace gpumat::probe {

/// The best of a few runs after one that warms up, in milliseconds.
template <class Enqueue>
double best_ms(Gpu& gpu, const Enqueue& enqueue) {
    constexpr int kRuns = 3;
    const auto checked = [&](Stream stream) {
        enqueue(cuda_stream(stream));
        GPUMAT_CUDA(cudaGetLastError());
    };
    (void)gpu.time_ms(checked);
    double best = gpu.time_ms(checked);
    for (int i = 1; i < kRuns; ++i) best = std::min(best, gpu.time_ms(checked));
    return best;
}

/// Runs a kernel of `blocks` blocks that leave their clocks in the array which `enqueue` is given; the median
/// of the blocks, the least of a few runs.
template <class Enqueue>
double block_clocks(Gpu& gpu, unsigned blocks, const Enqueue& enqueue) {
    constexpr int kRuns = 3;
    const DeviceMemory clocks = gpu.allocate(blocks * sizeof(long long));
    std::vector<long long> counted(blocks);
    double least = 0;
    for (int run = 0; run <= kRuns; ++run) {  // the first one warms up
        enqueue(static_cast<long long*>(clocks.data()), cuda_stream(gpu.stream()));
        GPUMAT_CUDA(cudaGetLastError());
        gpu.synchronize();
        gpu.download(counted.data(), clocks.data(), clocks.bytes());
        std::nth_element(counted.begin(), counted.begin() + blocks / 2, counted.end());
        const auto median = static_cast<double>(counted[blocks / 2]);
        if (run > 0) least = least == 0 ? median : std::min(least, median);
    }
    return least;
}

/// Between `begin` and `end` every warp of the block does its work; thread 0 leaves the clocks.
__device__ __forceinline__ long long begin_clock() {
    __syncthreads();
    return clock64();
}
__device__ __forceinline__ void end_clock(long long begin, long long* clocks) {
    __syncthreads();
    if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - begin;
}

}  // namespace gpumat::probe
