#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/shared_address.cuh"

namespace gpumat {

/// Whether this pass of the compiler has copies from global to shared memory that bypass registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define GPUMAT_HAS_ASYNC_COPY 1
#else
#define GPUMAT_HAS_ASYNC_COPY 0
#endif

#if GPUMAT_HAS_ASYNC_COPY

/// Starts a copy of kBytes (4, 8 or 16, both addresses aligned to them); writes zeros and reads nothing
/// where not `valid`. Copies of 16 bytes pass by the L1 cache, whose lines smaller ones share.
template <int kBytes>
__device__ inline void copy_async(std::uint32_t shared, const void* global, bool valid) {
    static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "sizes that the instruction has");
    if constexpr (kBytes == 16) {
        asm volatile(
            "{\n.reg .pred ignore;\nsetp.eq.u32 ignore, %2, 0;\n"
            "cp.async.cg.shared.global [%0], [%1], 16, ignore;\n}" ::"r"(shared),
            "l"(global), "r"(static_cast<int>(valid)));
    } else {
        asm volatile(
            "{\n.reg .pred ignore;\nsetp.eq.u32 ignore, %2, 0;\n"
            "cp.async.ca.shared.global [%0], [%1], %3, ignore;\n}" ::"r"(shared),
            "l"(global), "r"(static_cast<int>(valid)), "n"(kBytes));
    }
}

/// Ends a group of copies of this thread.
__device__ inline void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most kPending of this thread's last groups are still under way.
template <int kPending>
__device__ inline void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#endif

}  // namespace gpumat
