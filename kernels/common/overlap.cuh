#pragma once

// Programmatic dependent launch: a kernel is started when the blocks of the one before it on the stream have
// ended, ahead of all else that the end of a kernel takes, and waits where it first needs what that one
// wrote.
#include "kernels/common/launch.cuh"

namespace gpumat {

/// Whether the device has it and the code in use was compiled with it: without the instruction a kernel would
/// not wait.
inline bool overlaps_launches(const Device& device) {
    constexpr int kCapability = 90;
    return device.gpu->info().compute_capability >= kCapability && code_capability() >= kCapability;
}

/// Waits until the kernel before this one on the stream has ended and what it wrote is visible. Returns at
/// once where the launch did not overlap.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Starts a kernel, where `overlap` is true ahead of the end of the one before it on the stream. Every block
/// of it must call wait_for_previous() then.
template <class... Parameters, class... Arguments>
void start_kernel(const Geometry& geometry, cudaStream_t stream, bool overlap, void (*kernel)(Parameters...),
                  const Arguments&... arguments) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = geometry.grid;
    config.blockDim = geometry.block;
    config.dynamicSmemBytes = geometry.shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    GPUMAT_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace gpumat
