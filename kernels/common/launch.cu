#include "kernels/common/launch.cuh"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace gpumat {
namespace {

std::string text(const dim3& size) {
    std::string sizes = std::to_string(size.x) + "x" + std::to_string(size.y);
    return size.z == 1 ? sizes : sizes + "x" + std::to_string(size.z);
}

int attribute(cudaDeviceAttr which) {
    int index = 0;
    int value = 0;
    GPUMAT_CUDA(cudaGetDevice(&index));
    GPUMAT_CUDA(cudaDeviceGetAttribute(&value, which, index));
    return value;
}

int threads_of(const Geometry& geometry) {
    return static_cast<int>(geometry.block.x * geometry.block.y * geometry.block.z);
}

/// A resource, and how many blocks fill a multiprocessor's.
using Limit = std::pair<int, std::string_view>;

/// The resource that keeps a multiprocessor from taking more blocks. Registers are given to warps in units of
/// 256; a block's shared memory has a part that the system keeps.
Limit occupancy_limit(int threads, int registers, int shared_bytes) {
    constexpr int kWarp = 32;
    constexpr int kRegisterUnit = 256;
    const int warps = (threads + kWarp - 1) / kWarp;
    const int warp_registers = (registers * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
    const int kept_bytes = attribute(cudaDevAttrReservedSharedMemoryPerBlock);
    const std::array<Limit, 4> limits = {{
        {attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / (warps * kWarp), "threads"},
        {attribute(cudaDevAttrMaxRegistersPerMultiprocessor) / std::max(warp_registers * warps, 1),
         "registers"},
        {attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / std::max(shared_bytes + kept_bytes, 1),
         "shared memory"},
        {attribute(cudaDevAttrMaxBlocksPerMultiprocessor), "blocks"},
    }};
    return *std::ranges::min_element(limits, {}, &Limit::first);
}

/// All kernels are compiled for the same architectures; this one is asked for which.
__global__ void any_kernel() {}

}  // namespace

int code_capability() {
    cudaFuncAttributes attributes{};
    GPUMAT_CUDA(cudaFuncGetAttributes(&attributes, any_kernel));
    return attributes.ptxVersion;
}

std::vector<std::pair<std::string, std::string>> launch_details(const void* kernel,
                                                                const Geometry& geometry) {
    cudaFuncAttributes attributes{};
    GPUMAT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    const int threads = threads_of(geometry);
    int blocks = 0;
    GPUMAT_CUDA(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, geometry.shared_bytes));
    const int most_threads = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    const auto shared_bytes = static_cast<int>(attributes.sharedSizeBytes + geometry.shared_bytes);
    Limit limit = occupancy_limit(threads, attributes.numRegs, shared_bytes);
    if (geometry.blocks > 0 && blocks < limit.first) limit.second = "shared memory set aside";
    return {{"grid", text(geometry.grid)},
            {"block", text(geometry.block)},
            {"registers", std::to_string(attributes.numRegs)},
            {"shared_bytes", std::to_string(shared_bytes)},
            {"local_bytes", std::to_string(attributes.localSizeBytes)},
            {"blocks_per_multiprocessor", std::to_string(blocks)},
            {"occupancy_percent", std::to_string(100 * blocks * threads / most_threads)},
            {"occupancy_limit", std::string(limit.second)}};
}

void allow_shared_memory(const void* kernel, std::size_t bytes) {
    constexpr std::size_t kUsualLimit_bytes = 48 * 1024;  // with what the kernel declares itself
    cudaFuncAttributes attributes{};
    GPUMAT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    if (bytes + attributes.sharedSizeBytes <= kUsualLimit_bytes) return;
    GPUMAT_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

void prefer_blocks(const void* kernel, const Geometry& geometry) {
    if (geometry.blocks == 0) return;
    const int all_bytes = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    cudaFuncAttributes attributes{};
    GPUMAT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    const int block_bytes = static_cast<int>(attributes.sharedSizeBytes + geometry.shared_bytes) +
                            attribute(cudaDevAttrReservedSharedMemoryPerBlock);
    const int most = std::min(all_bytes / block_bytes,
                              attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / threads_of(geometry));
    const int blocks = std::clamp(geometry.blocks, 1, std::max(most, 1));
    const int percent = (100 * blocks * block_bytes + all_bytes - 1) / all_bytes;
    GPUMAT_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, std::min(percent, 100)));
}

}  // namespace gpumat
