#pragma once

#include <cstdint>

namespace gpumat {

/// The unsigned words that one access moves.
template <int BYTES>
struct WordOf;
template <>
struct WordOf<1> {
    using type = std::uint8_t;
};
template <>
struct WordOf<2> {
    using type = std::uint16_t;
};
template <>
struct WordOf<4> {
    using type = std::uint32_t;
};
template <>
struct WordOf<8> {
    using type = uint2;
};
template <>
struct WordOf<16> {
    using type = uint4;
};

/// The cache hint of an access. `normal`: the default. `once`: the data is not used again, so a load
/// takes no room in L1, and a store is the first to leave L2. `keep`, for loads of 4 to 16 bytes: L2 reads
/// the whole 256 bytes around the word and gives them up last, so that what is written meanwhile does not
/// drive out the rest of a line before it is read. `last`, for loads of 8 bytes: L2 gives up the word's line
/// last, and reads no more around it.
enum class Cache { normal, once, keep, last };

/// The policy of lines that leave L2 last.
__device__ __forceinline__ std::uint64_t leave_last() {
    std::uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
    return policy;
}

template <class Word>
__device__ __forceinline__ Word load_kept(const Word* address) {
    Word word;
#if __CUDA_ARCH__ >= 800
    if constexpr (sizeof(Word) == 16) {
        asm("ld.global.nc.L2::cache_hint.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
            : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
            : "l"(address), "l"(leave_last()));
    } else if constexpr (sizeof(Word) == 8) {
        asm("ld.global.nc.L2::cache_hint.L2::256B.v2.u32 {%0, %1}, [%2], %3;"
            : "=r"(word.x), "=r"(word.y)
            : "l"(address), "l"(leave_last()));
    } else {
        static_assert(sizeof(Word) == 4);
        asm("ld.global.nc.L2::cache_hint.L2::256B.u32 %0, [%1], %2;"
            : "=r"(word)
            : "l"(address), "l"(leave_last()));
    }
#else
    word = *address;
#endif
    return word;
}

__device__ __forceinline__ uint2 load_last(const uint2* address) {
#if __CUDA_ARCH__ >= 800
    uint2 word;
    asm("ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;"
        : "=r"(word.x), "=r"(word.y)
        : "l"(address), "l"(leave_last()));
    return word;
#else
    return *address;
#endif
}

/// Reads a word. Except with `normal`, no thread of this kernel may write it.
template <Cache CACHE, class Word>
__device__ __forceinline__ Word load_word(const Word* address) {
    if constexpr (CACHE == Cache::normal || sizeof(Word) < 4) {
        return *address;
    } else if constexpr (CACHE == Cache::keep) {
        return load_kept(address);
    } else if constexpr (CACHE == Cache::last) {
        return load_last(address);
    } else if constexpr (sizeof(Word) == 16) {
        uint4 word;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                     : "l"(address));
        return word;
    } else if constexpr (sizeof(Word) == 8) {
        uint2 word;
        asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                     : "=r"(word.x), "=r"(word.y)
                     : "l"(address));
        return word;
    } else {
        std::uint32_t word;
        asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(word) : "l"(address));
        return word;
    }
}

template <Cache CACHE, class Word>
__device__ __forceinline__ void store_word(Word* address, const Word& word) {
    if constexpr (CACHE == Cache::once) {
        __stcs(address, word);
    } else {
        *address = word;
    }
}

/// Starts a copy of BYTES (4, 8 or 16) from global to shared memory that holds no register. Both addresses
/// are multiples of BYTES. The bytes are there after `wait_for_copies` and a barrier. L2 prefetches the
/// whole 256 bytes around them: for runs whose neighbours are read soon, device memory then moves whole
/// lines, however the runs lie. CACHE is normal or keep. Take keep only where the tests have
/// run on a GPU: nvcc 13.0 was seen to give the policy and a uniform part of the shared address one register,
/// which stops the kernel (an illegal instruction).
template <int BYTES, Cache CACHE>
__device__ __forceinline__ void copy_word_async(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    if constexpr (CACHE == Cache::keep && BYTES == 16) {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::256B [%0], [%1], 16, %2;"
                     :
                     : "r"(to), "l"(global), "l"(leave_last())
                     : "memory");
    } else if constexpr (CACHE == Cache::keep) {
        asm volatile("cp.async.ca.shared.global.L2::cache_hint.L2::256B [%0], [%1], %2, %3;"
                     :
                     : "r"(to), "l"(global), "n"(BYTES), "l"(leave_last())
                     : "memory");
    } else if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;"
                     :
                     : "r"(to), "l"(global)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global.L2::256B [%0], [%1], %2;"
                     :
                     : "r"(to), "l"(global), "n"(BYTES)
                     : "memory");
    }
#else
    using Word = typename WordOf<BYTES>::type;
    *static_cast<Word*>(shared) = *static_cast<const Word*>(global);
#endif
}

/// Waits for every copy that this thread started.
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

}  // namespace gpumat
