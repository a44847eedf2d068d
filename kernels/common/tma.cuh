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

/// The same copy to this place in every block of the cluster whose bit in `blocks` is set; its bytes count at
/// the barrier at this address in each of them. `blocks` is a constant: 1 stands for this block alone.
__device__ __forceinline__ void load_box_for(unsigned blocks, std::uint32_t shared, const CUtensorMap* map,
                                             int x, int y, std::uint32_t barrier) {
    if (blocks == 1) {
        load_box_async(shared, map, x, y, barrier);
        return;
    }
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared),
        "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(static_cast<std::uint16_t>(blocks))
        : "memory");
#else
    __trap();
#endif
}

/// Starts the copy of a box in shared memory to the map's place (x, y); what lies outside of the matrix is
/// left out. Shared memory must have been published by those who wrote it.
__device__ __forceinline__ void store_box_async(const CUtensorMap* map, int x, int y, std::uint32_t shared) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
        "r"(y), "r"(shared)
        : "memory");
#else
    __trap();
#endif
}

/// Ends a group of this thread's stores.
__device__ __forceinline__ void commit_stores() {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#else
    __trap();
#endif
}

/// Waits until all but the last kPending groups of this thread's stores have read shared memory. They are
/// done when the kernel is.
template <int kPending>
__device__ __forceinline__ void wait_stores_read() {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
#else
    __trap();
#endif
}

/// Arrives at the barrier at this address in the cluster's block of that rank. Orders nothing that this
/// thread wrote: a fence for the cluster would take a thousand clocks.
__device__ __forceinline__ void arrive_in_cluster(std::uint32_t barrier, int rank) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
        "r"(rank)
        : "memory");
#else
    __trap();
#endif
}

/// Waits for all threads of a cluster of kBlocks blocks. Of what they wrote only barriers are sure to be seen
/// by others, where they were published.
template <int kBlocks>
__device__ __forceinline__ void sync_cluster() {
    if constexpr (kBlocks == 1) {
        __syncthreads();
    } else {
#if __CUDA_ARCH__ >= 900
        asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
#else
        __trap();
#endif
    }
}

/// Four 8×8 matrices of 16-bit elements to shared memory, a row of 16 bytes at the address that each lane
/// gives: lanes 0 to 7 those of the first matrix, and so on. A lane holds elements 2·(lane mod 4) and the
/// next of row lane / 4 of each matrix.
__device__ __forceinline__ void store_matrices(std::uint32_t shared, const std::uint32_t (&words)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
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
