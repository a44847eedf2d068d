#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/reduce/gpu/words.cuh"

// The kernels of `shuffle` that reduce columns: parts of rows, and then what the parts leave.

namespace gpumat::reduce::gpu {

constexpr int kRowsOfThreads = kWarps;
constexpr int kRowsInFlight = 8;
// Blocks that a multiprocessor has room for at least: more registers are better used for words on their way.
constexpr int kColumnBlocks = 2;
constexpr int kCombining = 1024;  // threads of a block that combines parts

/// Columns a thread: what one word holds, but no more than have room for their totals in registers.
template <class A>
constexpr int columns_of() {
    constexpr int kMostTotalBytes = 128;
    const int in_word = kWordBytes / static_cast<int>(sizeof(typename A::Element));
    const int fit = std::max(1, kMostTotalBytes / static_cast<int>(sizeof(typename A::Total)));
    int columns = 1;
    while (2 * columns <= std::min(in_word, fit)) columns *= 2;
    return columns;
}

/// A matrix whose columns are reduced: `limit` elements from the first one on are there. Where several rows
/// of few columns are taken as one, the last row may end early.
///
/// Every `period`-th row begins as far behind an aligned word. A part takes such rows alone, and its threads
/// take words that begin as far before their columns, so that all of them are aligned.
struct Columns {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t pitch = 0;
    std::int64_t limit = 0;
    std::int64_t parts = 1;
    std::int64_t chunk = 1;   ///< rows of a part
    std::int64_t period = 1;  ///< from one row of a part to the next
    std::int64_t strips = 1;  ///< of 32 threads side by side
    std::int64_t skew = 0;    ///< elements from an aligned word to the first one
    bool by_words = false;
};

/// V neighbouring elements of a row, of which those are added that are there.
template <class A, int V>
__device__ __forceinline__ void add_columns(const typename A::Element* in, std::int64_t row, std::int64_t col,
                                            const Columns& matrix, const Mirror& mirror,
                                            ScalarRun<A> (&runs)[V]) {
    const std::int64_t offset = row * matrix.pitch + col;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (col + v >= 0 && col + v < matrix.cols && offset + v < matrix.limit)
            runs[v].add(element_at<A>(in + offset + v, mirror));
    }
}

template <class A, int V>
using ColumnWord = typename WordOf<V* static_cast<int>(sizeof(typename A::Element))>::type;

template <class A, int V>
__device__ __forceinline__ ColumnWord<A, V> load_columns(const typename A::Element* in) {
    return load_word<Cache::once>(reinterpret_cast<const ColumnWord<A, V>*>(in));
}

template <class A, int V>
__device__ __forceinline__ void add_word(ColumnWord<A, V> word, const Mirror& mirror,
                                         ScalarRun<A> (&runs)[V]) {
    typename A::Element elements[V];
    mirror_word<A>(word, mirror);
    memcpy(static_cast<void*>(elements), &word, sizeof word);
#pragma unroll
    for (int v = 0; v < V; ++v) runs[v].add(element_of<A>(elements + v));
}

/// V neighbouring elements, as a word, of each of kRowsInFlight rows that are `step` elements apart. All are
/// on their way before the first is added.
template <class A, int V>
__device__ __forceinline__ void add_words(const typename A::Element* in, std::int64_t step,
                                          const Mirror& mirror, ScalarRun<A> (&runs)[V]) {
    ColumnWord<A, V> loaded[kRowsInFlight];
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) loaded[k] = load_columns<A, V>(in + k * step);
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) add_word<A, V>(loaded[k], mirror, runs);
}

/// Thread (x, y) of a block takes V columns from (strip · 32 + x) · V on, or some before, and every
/// kRowsOfThreads-th row of the part from y on. Leaves totals[part · cols + column]. Of words that reach
/// beyond a row what belongs to no column is added up too, and left out at the end.
template <class A>
__global__ void __launch_bounds__(kThreads, kColumnBlocks)
    columns_kernel(const void* __restrict__ elements, Columns matrix, void* totals, Mirror mirror) {
    using Total = typename A::Total;
    constexpr int V = columns_of<A>();
    constexpr int kUnrolled = 4;  // rows that are left over, on their way together
    __shared__ Words<Total> shared[kRowsOfThreads][kWarp];
    const auto* in = static_cast<const typename A::Element*>(elements);
    const int x = static_cast<int>(threadIdx.x) % kWarp;
    const int y = static_cast<int>(threadIdx.x) / kWarp;
    const std::int64_t step = kRowsOfThreads * matrix.period;
    for (std::int64_t item = blockIdx.x; item < matrix.strips * matrix.parts; item += gridDim.x) {
        const std::int64_t part = item / matrix.strips;
        const std::int64_t phase = part % matrix.period;
        const std::int64_t first = part / matrix.period * matrix.chunk * matrix.period;
        const std::int64_t end = min(matrix.rows, first + matrix.chunk * matrix.period);
        const std::int64_t shift = matrix.by_words ? (matrix.skew + phase * matrix.pitch) % V : 0;
        const std::int64_t col = (item % matrix.strips * kWarp + x) * V - shift;
        Total mine[V];
        std::int64_t row = first + phase + y * matrix.period;
        while (row < end && col < matrix.cols) {
            ScalarRun<A> runs[V];
            const std::int64_t stop = min(end, row + (kLongestRun - kRowsInFlight) * step);
            if (row * matrix.pitch + col < 0) {  // a word that begins before the matrix
                add_columns<A, V>(in, row, col, matrix, mirror, runs);
                row += step;
            }
            const std::int64_t last = (kRowsInFlight - 1) * step;
            for (; matrix.by_words && row + last < stop &&
                   (row + last) * matrix.pitch + col + V <= matrix.limit;
                 row += kRowsInFlight * step)
                add_words<A, V>(in + row * matrix.pitch + col, step * matrix.pitch, mirror, runs);
#pragma unroll kUnrolled
            for (; row < stop; row += step) {
                const std::int64_t offset = row * matrix.pitch + col;
                if (matrix.by_words && offset + V <= matrix.limit) {
                    add_word<A, V>(load_columns<A, V>(in + offset), mirror, runs);
                } else {
                    add_columns<A, V>(in, row, col, matrix, mirror, runs);
                }
            }
#pragma unroll
            for (int v = 0; v < V; ++v) mine[v].take(runs[v]);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            shared[y][x] = to_words(mine[v]);
            __syncthreads();  // the column's totals are there before they are combined
            if (y == 0 && col + v >= 0 && col + v < matrix.cols) {
                for (int other = 1; other < kRowsOfThreads; ++other)
                    mine[v].take(from_words(shared[other][x]));
                static_cast<Words<Total>*>(totals)[part * matrix.cols + col + v] = to_words(mine[v]);
            }
            __syncthreads();  // they are read before the next column's overwrite them
        }
    }
}

/// Thread (x, y) combines every part of a column from y on that is as many parts further as there are rows of
/// threads, and the rows of threads are combined by halves. `width` columns are side by side: a power of two.
template <class Total>
__global__ void __launch_bounds__(kCombining)
    combine_kernel(const void* __restrict__ totals, std::int64_t parts, std::int64_t cols, int width,
                   Results results) {
    __shared__ Words<Total> shared[kCombining];
    const int t = static_cast<int>(threadIdx.x);
    const int rows = kCombining / width;
    const int y = t / width;
    for (std::int64_t left = static_cast<std::int64_t>(blockIdx.x) * width; left < cols;
         left += static_cast<std::int64_t>(gridDim.x) * width) {
        const std::int64_t col = left + t % width;
        Total total;
        if (col < cols) {
#pragma unroll 4
            for (std::int64_t part = y; part < parts; part += rows)
                total.take(load_total(static_cast<const Words<Total>*>(totals) + part * cols + col));
        }
        for (int half = rows / 2; half > 0; half /= 2) {
            if (y >= half && y < 2 * half) shared[t] = to_words(total);
            __syncthreads();  // the lower half's totals are there before the upper half takes them
            if (y < half) total.take(from_words(shared[t + half * width]));
        }
        if (y == 0 && col < cols) results.store(col, total);
    }
}

}  // namespace gpumat::reduce::gpu
