#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/common/cuda_check.cuh"
#include "kernels/level.hpp"

namespace gpumat::multiply::gpu {

template <class Integer>
__host__ __device__ constexpr Integer divide_up(Integer value, Integer by) {
    return (value + by - 1) / by;
}

/// Blocks to launch for `tiles` tiles of C. Kernels walk over the tiles with the grid's width as their
/// step, so a matrix with more tiles than a grid can hold is no special case.
inline unsigned grid_for(std::int64_t tiles) {
    return static_cast<unsigned>(std::min<std::int64_t>(tiles, std::numeric_limits<int>::max()));
}

/// Facts about a kernel for the log: block shape, registers, shared memory and the blocks that fit on a
/// multiprocessor at once.
template <class Kernel>
std::vector<std::pair<std::string, std::string>> describe(Kernel* kernel, dim3 block,
                                                          std::size_t dynamic_shared_bytes = 0) {
    cudaFuncAttributes facts{};
    GPUMAT_CUDA(cudaFuncGetAttributes(&facts, kernel));
    int resident = 0;
    const auto threads = static_cast<int>(block.x * block.y * block.z);
    GPUMAT_CUDA(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, dynamic_shared_bytes));
    return {{"block", std::to_string(block.x) + "x" + std::to_string(block.y)},
            {"registers", std::to_string(facts.numRegs)},
            {"shared_bytes", std::to_string(facts.sharedSizeBytes + dynamic_shared_bytes)},
            {"blocks_per_multiprocessor", std::to_string(resident)}};
}

inline cudaStream_t stream_of(const Device& device) {
    return static_cast<cudaStream_t>(device.gpu->stream());
}

}  // namespace gpumat::multiply::gpu
