#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpumat {

// Hopper's bulk tensor copies and the barriers they complete on. For compute capability 9.0 and later; in
// other device code these functions do nothing, and no kernel that calls them is started there.

/// The address of shared memory as the instructions take it.
__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

/// Prepares a barrier for `arrivals` a phase; `publish_barriers` must follow before anyone else uses it.
__device__ __forceinline__ void init_barrier(std::uint64_t* barrier, unsigned arrivals) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
#endif
}

/// Lets the copy engine see the barriers that this thread has prepared.
__device__ __forceinline__ void publish_barriers() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Arrives at the barrier, whose phase also waits for that many bytes of copies.
__device__ __forceinline__ void arrive_expecting(std::uint64_t* barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
#endif
}

/// Waits until the phase of that parity is complete; what its copies wrote is visible then.
__device__ __forceinline__ void wait_barrier(std::uint64_t* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
#endif
}

/// Starts the copy of the map's box at (x, y) into shared memory; its bytes count at the barrier.
__device__ __forceinline__ void load_box_async(void* shared, const CUtensorMap* map, int x, int y,
                                               std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3}], [%4];" ::"r"(shared_address(shared)),
        "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
        : "memory");
#endif
}

/// Starts the copy of a box from shared memory to the map's (x, y). What ordinary stores wrote there must
/// have been published by `publish_shared` and a barrier. Ends a group of stores with `commit_stores`.
__device__ __forceinline__ void store_box_async(const CUtensorMap* map, int x, int y, const void* shared) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
        "r"(y), "r"(shared_address(shared))
        : "memory");
#endif
}

__device__ __forceinline__ void commit_stores() {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the newest PENDING groups of this thread's stores have read their shared memory.
template <int PENDING>
__device__ __forceinline__ void wait_stores_read() {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
#endif
}

/// Orders this thread's ordinary shared-memory accesses before copies that are started later.
__device__ __forceinline__ void publish_shared() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Fetches the map early.
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
#if __CUDA_ARCH__ >= 900
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

}  // namespace gpumat
