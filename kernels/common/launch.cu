#include "kernels/common/launch.cuh"

#include <string>

namespace gpumat {
namespace {

std::string text(const dim3& size) {
    std::string sizes = std::to_string(size.x) + "x" + std::to_string(size.y);
    return size.z == 1 ? sizes : sizes + "x" + std::to_string(size.z);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> launch_details(const void* kernel,
                                                                const Geometry& geometry) {
    cudaFuncAttributes attributes{};
    GPUMAT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    const auto threads = static_cast<int>(geometry.block.x * geometry.block.y * geometry.block.z);
    int blocks = 0;
    GPUMAT_CUDA(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, geometry.shared_bytes));
    int index = 0;
    int most_threads = 0;
    GPUMAT_CUDA(cudaGetDevice(&index));
    GPUMAT_CUDA(cudaDeviceGetAttribute(&most_threads, cudaDevAttrMaxThreadsPerMultiProcessor, index));
    return {{"grid", text(geometry.grid)},
            {"block", text(geometry.block)},
            {"registers", std::to_string(attributes.numRegs)},
            {"shared_bytes", std::to_string(attributes.sharedSizeBytes + geometry.shared_bytes)},
            {"local_bytes", std::to_string(attributes.localSizeBytes)},
            {"blocks_per_multiprocessor", std::to_string(blocks)},
            {"occupancy_percent", std::to_string(100 * blocks * threads / most_threads)}};
}

void allow_shared_memory(const void* kernel, std::size_t bytes) {
    constexpr std::size_t kUsualLimit_bytes = 48 * 1024;
    if (bytes <= kUsualLimit_bytes) return;
    GPUMAT_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

}  // namespace gpumat
