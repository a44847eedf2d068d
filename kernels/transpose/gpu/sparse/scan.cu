#include "kernels/transpose/gpu/sparse/scan.cuh"

namespace gpumat::transpose::gpu::sparse {

__global__ void __launch_bounds__(1024) scan_sums_kernel(std::int64_t* sums, std::int64_t tiles) {
    std::int64_t before = 0;
    for (std::int64_t first = 0; first < tiles; first += 1024) {
        const std::int64_t at = first + threadIdx.x;
        std::int64_t all = 0;
        const std::int64_t start = before + sum_before<1024>(at < tiles ? sums[at] : 0, all);
        if (at < tiles) sums[at] = start;
        before += all;
    }
    if (threadIdx.x == 0) sums[tiles] = before;
}

void enqueue_scan_of_sums(std::int64_t* sums, std::int64_t tiles, cudaStream_t stream) {
    scan_sums_kernel<<<1, 1024, 0, stream>>>(sums, tiles);
    GPUMAT_CUDA(cudaGetLastError());
}

}  // namespace gpumat::transpose::gpu::sparse
