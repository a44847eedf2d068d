#pragma once

// Accesses of 16 bytes.
#include <cstdint>
#include <cstring>

#include "kernels/multiply/gpu/arithmetic.cuh"

namespace gpumat::multiply::gpu {

/// Elements of one 16-byte access to shared memory, where elements are stored as sums.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(Sum<T>));

/// kCount elements that are loaded and stored at once.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Vector {
    T at[kCount];
};

/// Reads the 16 bytes of shared memory at that address. Volatile, so that the compiler keeps the reads where
/// they are written, ahead of their use: it would move them behind multiply-adds to just before they are
/// needed.
template <class S, int kCount>
__device__ inline void read_vector(S (&to)[kCount], std::uint32_t from) {
    static_assert(sizeof(to) == 16);
    uint4 bits;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "r"(from));
    memcpy(to, &bits, 16);
}

}  // namespace gpumat::multiply::gpu
