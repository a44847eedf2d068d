#pragma once

namespace gpumat {

// A block's barriers by their numbers, of which 0 is that of __syncthreads(). THREADS of the block, whole
// warps, take part in each use: some wait, the others only say that they have come this far. What these read
// and wrote before is done when the ones that wait go on.

/// Waits until all who take part have come.
template <int THREADS>
__device__ __forceinline__ void sync_at(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

/// Comes, and goes on.
template <int THREADS>
__device__ __forceinline__ void arrive_at(int barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

}  // namespace gpumat
