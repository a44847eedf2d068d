#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/access.cuh"
#include "kernels/common/shared_address.cuh"

namespace gpumat {

// Hopper's bulk tensor copies and the barriers they complete on, both by their addresses in shared memory.
// For code that is compiled for compute capability 9.0 or later (code_capability in launch.cuh); in any other
// they stop the kernel.

/// Prepares a barrier for `arrivals` a phase; `publish_barriers` must follow before anyone else uses it.
__device__ __forceinline__ void init_barrier(std::uint32_t barrier, unsigned arrivals) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
#else
    __trap();
#endif
}

/// Lets the copy engine see the barriers that this thread has prepared.
__device__ __forceinline__ void publish_barriers() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    __trap();
#endif
}

/// Arrives at the barrier, whose phase also waits for that many bytes of copies.
__device__ __forceinline__ void arrive_expecting(std::uint32_t barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
#else
    __trap();
#endif
}

/// Waits until the phase of that parity is complete; what its copies wrote is visible then.
__device__ __forceinline__ void wait_barrier(std::uint32_t barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
#else
    __trap();
#endif
}

/// Starts the copy of the map's box at (x, y) into shared memory; its bytes count at the barrier. CACHE is
/// normal or keep.
template <Cache CACHE = Cache::normal>
__device__ __forceinline__ void load_box_async(std::uint32_t shared, const CUtensorMap* map, int x, int y,
                                               std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
    if constexpr (CACHE == Cache::keep) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
            "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared),
            "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(leave_last())
            : "memory");
        return;
    }
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3}], [%4];" ::"r"(shared),
        "l"(map), "r"(x), "r"(y), "r"(barrier)
        : "memory");
#else
    __trap();
#endif
}

/// Orders this thread's ordinary shared-memory accesses before copies that are started later.
__device__ __forceinline__ void publish_shared() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    __trap();
#endif
}

/// Fetches the map early.
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
#if __CUDA_ARCH__ >= 900
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
    __trap();
#endif
}

}  // namespace gpumat
