#pragma once

#include <cstdint>

#include "kernels/common/launch.cuh"

// Sums of all counts before each one, for any number of counts.

namespace gpumat::transpose::gpu::sparse {

/// The sum of the values of the threads before this one; `all` is that of all of them.
template <int THREADS>
__device__ std::int64_t sum_before(std::int64_t value, std::int64_t& all) {
    constexpr int kWarps = THREADS / 32;
    __shared__ std::int64_t warps[kWarps];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    std::int64_t sum = value;
    for (int distance = 1; distance < 32; distance *= 2) {
        const std::int64_t other = __shfl_up_sync(~0U, sum, distance);
        if (lane >= distance) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    std::int64_t before = 0;
    all = 0;
    for (int w = 0; w < kWarps; ++w) {
        if (w < warp) before += warps[w];
        all += warps[w];
    }
    __syncthreads();
    return before + sum - value;
}

constexpr int kScanThreads = 256;
constexpr std::int64_t kScanTile = 16 * kScanThreads;

inline std::int64_t scan_tiles(std::int64_t length) {
    return (length + kScanTile - 1) / kScanTile;
}

/// What `exclusive_scan` needs, in elements of 8 bytes.
inline std::int64_t scan_words(std::int64_t length) {
    return scan_tiles(length) + 1;
}

template <class Count>
__global__ void __launch_bounds__(kScanThreads)
    tile_sums_kernel(const Count* counts, std::int64_t length, std::int64_t* sums) {
    const std::int64_t first = blockIdx.x * kScanTile;
    std::int64_t mine = 0;
    for (std::int64_t i = threadIdx.x; i < kScanTile; i += kScanThreads)
        if (first + i < length) mine += static_cast<std::int64_t>(counts[first + i]);
    std::int64_t all = 0;
    sum_before<kScanThreads>(mine, all);
    if (threadIdx.x == 0) sums[blockIdx.x] = all;
}

/// One block; each sum becomes that of those before it, and behind the last one comes that of all.
__global__ void __launch_bounds__(1024) scan_sums_kernel(std::int64_t* sums, std::int64_t tiles);

template <class Count>
__global__ void __launch_bounds__(kScanThreads)
    scan_tiles_kernel(const Count* counts, std::int64_t length, const std::int64_t* sums,
                      std::int64_t* starts) {
    const std::int64_t first = blockIdx.x * kScanTile;
    std::int64_t before = sums[blockIdx.x];
    for (std::int64_t i = threadIdx.x; i < kScanTile; i += kScanThreads) {
        const std::int64_t at = first + i;
        std::int64_t all = 0;
        const std::int64_t mine = at < length ? static_cast<std::int64_t>(counts[at]) : 0;
        const std::int64_t start = before + sum_before<kScanThreads>(mine, all);
        if (at < length) starts[at] = start;
        before += all;
    }
    if (first + kScanTile >= length && threadIdx.x == 0) starts[length] = before;
}

void enqueue_scan_of_sums(std::int64_t* sums, std::int64_t tiles, cudaStream_t stream);

/// Enqueues starts[i] = counts[0] + … + counts[i − 1] for i from 0 to `length`. `work` has scan_words of
/// them.
template <class Count>
void exclusive_scan(const Count* counts, std::int64_t length, std::int64_t* starts, std::int64_t* work,
                    cudaStream_t stream) {
    if (length == 0) {
        GPUMAT_CUDA(cudaMemsetAsync(starts, 0, sizeof *starts, stream));
        return;
    }
    const std::int64_t tiles = scan_tiles(length);
    const dim3 grid(static_cast<unsigned>(tiles));
    tile_sums_kernel<<<grid, kScanThreads, 0, stream>>>(counts, length, work);
    GPUMAT_CUDA(cudaGetLastError());
    enqueue_scan_of_sums(work, tiles, stream);
    scan_tiles_kernel<<<grid, kScanThreads, 0, stream>>>(counts, length, work, starts);
    GPUMAT_CUDA(cudaGetLastError());
}

}  // namespace gpumat::transpose::gpu::sparse
