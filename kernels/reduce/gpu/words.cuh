#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/common/access.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/reduce/accumulators.hpp"

// What the kernels of `shuffle` share: totals that are moved as words, and elements that are read as words.

namespace gpumat::reduce::gpu {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kInFlight = 8;  // words that a thread waits for at a time
constexpr int kWordBytes = 16;
constexpr unsigned kEveryLane = 0xffffffffU;

// ---- Totals as words

/// A total as words that shuffles move and that memory holds.
template <class Total>
struct Words {
    static constexpr int kCount = static_cast<int>((sizeof(Total) + 3) / 4);
    unsigned words[kCount];
};

template <class Total>
__device__ __forceinline__ Words<Total> to_words(const Total& total) {
    Words<Total> packed{};
    memcpy(packed.words, &total, sizeof total);
    return packed;
}
template <class Total>
__device__ __forceinline__ Total from_words(const Words<Total>& packed) {
    Total total;
    memcpy(&total, packed.words, sizeof total);
    return total;
}

/// Reads what another block wrote: from L2, for L1 may hold what was there before.
template <class Total>
__device__ __forceinline__ Total load_total(const Words<Total>* at) {
    Words<Total> packed;
#pragma unroll
    for (int i = 0; i < Words<Total>::kCount; ++i) packed.words[i] = __ldcg(at->words + i);
    return from_words(packed);
}

/// Lane i of each `lanes` neighbours takes the total of lane i + lanes/2, then of lane i + lanes/4 …: lane 0
/// has them all. `lanes` is a power of two; all lanes of the warp take part.
template <class Total>
__device__ __forceinline__ void combine_lanes(Total& total, int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
        Words<Total> packed = to_words(total);
#pragma unroll
        for (int i = 0; i < Words<Total>::kCount; ++i)
            packed.words[i] = __shfl_down_sync(kEveryLane, packed.words[i], distance, lanes);
        total.take(from_words(packed));
    }
}

/// Thread 0 gets the total of the first lanes of all warps of the block; all threads call it.
template <class Total>
__device__ __forceinline__ void combine_warps(Total& total) {
    __shared__ Words<Total> of_warps[kWarps];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    __syncthreads();  // what the last call left in shared memory has been read
    if (lane == 0) of_warps[warp] = to_words(total);
    __syncthreads();  // every warp's total is there before they are combined
    if (warp != 0) return;
    total = lane < kWarps ? from_words(of_warps[lane]) : Total{};
    combine_lanes(total, kWarps);
}

/// Passes each element of a word of `BYTES` through the mirror: its masks repeat after 8 bytes.
template <class A, class Word>
__device__ __forceinline__ void mirror_word(Word& word, const Mirror& mirror) {
    if constexpr (kMirrored<A> && sizeof(Word) <= 8) {
        word = mirror.of(word);
    } else if constexpr (kMirrored<A>) {
        uint2 halves[2];
        memcpy(halves, &word, sizeof word);
        for (uint2& half : halves) half = mirror.of(half);
        memcpy(&word, halves, sizeof word);
    }
}

// ---- Elements

/// Adds the elements of a word to a run.
template <class A>
__device__ __forceinline__ void add_word(uint4 word, const Mirror& mirror, ScalarRun<A>& run) {
    using T = typename A::Element;
    constexpr int kElements = kWordBytes / static_cast<int>(sizeof(T));
    T elements[kElements];
    mirror_word<A>(word, mirror);
    memcpy(static_cast<void*>(elements), &word, sizeof word);
#pragma unroll
    for (int i = 0; i < kElements; ++i) run.add(element_of<A>(elements + i));
}

/// The elements [0, count) at `from`, shared out among `threads` threads of which this is number `thread`.
/// Words of 16 bytes where they are aligned, single elements before and after.
template <class A>
__device__ __forceinline__ void add_elements(const typename A::Element* from, std::int64_t count, int thread,
                                             int threads, const Mirror& mirror, typename A::Total& total) {
    constexpr int kElements = kWordBytes / static_cast<int>(sizeof(typename A::Element));
    constexpr std::int64_t kSweeps = kLongestRun / (kElements * kInFlight) - 1;  // and what is left over
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    const auto skew = static_cast<std::int64_t>((kWordBytes - address % kWordBytes) % kWordBytes /
                                                sizeof(typename A::Element));
    const std::int64_t head = count < skew ? count : skew;
    const std::int64_t words = (count - head) / kElements;
    const std::int64_t tail = head + words * kElements;
    const auto* word = reinterpret_cast<const uint4*>(from + head);
    const std::int64_t step = static_cast<std::int64_t>(threads) * kInFlight;
    std::int64_t i = 0;
    while (i + step <= words) {
        ScalarRun<A> run;
        for (std::int64_t sweep = 0; sweep < kSweeps && i + step <= words; ++sweep, i += step) {
            uint4 loaded[kInFlight];
#pragma unroll
            for (int k = 0; k < kInFlight; ++k)
                loaded[k] = load_word<Cache::once>(word + i + k * threads + thread);
#pragma unroll
            for (int k = 0; k < kInFlight; ++k) add_word<A>(loaded[k], mirror, run);
        }
        total.take(run);
    }
    ScalarRun<A> run;
    for (i += thread; i < words; i += threads) add_word<A>(load_word<Cache::once>(word + i), mirror, run);
    // The single elements before and after, as if they were one row.
    for (std::int64_t j = thread; j < head; j += threads) run.add(element_at<A>(from + j, mirror));
    for (std::int64_t j = tail + thread; j < count; j += threads) run.add(element_at<A>(from + j, mirror));
    total.take(run);
}

}  // namespace gpumat::reduce::gpu
