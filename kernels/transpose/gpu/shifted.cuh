#pragma once

// The kernels of `vectorized` for matrices whose rows are not whole words. See vectorized.cu.
//
// Both sides still move aligned words of 16 bytes. The words that cover a tile's part of an input row are
// copied to shared memory as they lie: a byte keeps its address modulo 16, so row r starts at
// origin + r·pitch with pitch = row bytes mod 16. The words of an output row are those that are aligned in
// memory, so a tile's output rows start at different input rows; up to one word less an element of input rows
// above the tile is read too, and every aligned output word belongs to exactly one tile. Words that cross the
// ends of a row are written element by element.
#include <cstdint>

#include "kernels/common/access.cuh"
#include "kernels/transpose/gpu/order.cuh"
#include "kernels/transpose/gpu/tuning.hpp"

namespace gpumat::transpose::gpu {

constexpr int kShiftWord_bytes = 16;

/// The bytes by which an address passes a multiple of 16.
__device__ __forceinline__ int past_word(const void* address) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % kShiftWord_bytes);
}

/// Copies the part of an aligned word that lies in the matrix [begin, end) to shared memory. `shared` has the
/// alignment of `word`.
template <class T>
__device__ __forceinline__ void stage_word(unsigned char* shared, const unsigned char* word, const T* begin,
                                           const T* end) {
    const auto* first = reinterpret_cast<const T*>(word);
    constexpr int kPack = kShiftWord_bytes / static_cast<int>(sizeof(T));
    if (first >= begin && first + kPack <= end) {
        copy_16_async(shared, word);
        return;
    }
    for (int p = 0; p < kPack; ++p) {
        if (first + p >= begin && first + p < end) reinterpret_cast<T*>(shared)[p] = first[p];
    }
}

/// An output word in registers, element by element.
template <class T>
struct Gathered {
    static constexpr int kPack = kShiftWord_bytes / static_cast<int>(sizeof(T));
    union {
        uint4 word;
        T elements[kPack];
    };
};

/// Writes the elements of `gathered` whose places in the row [begin, end) are from `first` on.
template <Cache STORE, class T>
__device__ __forceinline__ void emit_word(T* row, std::int64_t first, std::int64_t end,
                                          const Gathered<T>& gathered) {
    if (first >= 0 && first + Gathered<T>::kPack <= end) {
        store_word<STORE>(reinterpret_cast<uint4*>(row + first), gathered.word);
        return;
    }
#pragma unroll
    for (int p = 0; p < Gathered<T>::kPack; ++p) {
        if (first + p >= 0 && first + p < end) row[first + p] = gathered.elements[p];
    }
}

template <class T, class PLAN>
struct ShiftTile {
    static constexpr int kPack = kShiftWord_bytes / static_cast<int>(sizeof(T));  ///< elements a word
    static constexpr int kCols = PLAN::kWordsX * kPack;
    static constexpr int kRows = PLAN::kWordsY * kPack;
    static constexpr int kHalo = kPack - 1;              ///< rows above the tile
    static constexpr int kRowWords = PLAN::kWordsX + 1;  ///< words that cover kCols at any alignment
    /// The least pitch whose rows do not overlap, rounded down to words, whatever is added modulo 16.
    static constexpr int kPitch_bytes = (kRowWords + 1) * kShiftWord_bytes;
    static constexpr std::size_t kShared_bytes =
        static_cast<std::size_t>(kRows + kHalo + 1) * (kPitch_bytes + kShiftWord_bytes);
};

template <class T, class PLAN>
__global__ void __launch_bounds__(PLAN::kThreads)
    shifted_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows, std::int64_t cols,
                   BandOrder order) {
    using Tile = ShiftTile<T, PLAN>;
    constexpr int kSize = sizeof(T);
    extern __shared__ __align__(16) unsigned char shared[];
    const uint2 at = order.tile(blockIdx.x);
    const std::int64_t top = std::int64_t{at.y} * Tile::kRows;
    const std::int64_t left = std::int64_t{at.x} * Tile::kCols;
    const int width = static_cast<int>(min(std::int64_t{Tile::kCols}, cols - left));
    const int pitch = Tile::kPitch_bytes + static_cast<int>(cols * kSize % kShiftWord_bytes);
    const T* corner = in + (top - Tile::kHalo) * cols + left;  // may lie before the matrix: not read there
    const int origin = past_word(corner);

    for (int k = static_cast<int>(threadIdx.x); k < (Tile::kRows + Tile::kHalo) * Tile::kRowWords;
         k += PLAN::kThreads) {
        const int r = k / Tile::kRowWords;
        const int w = k % Tile::kRowWords;
        const std::int64_t i = top - Tile::kHalo + r;
        const auto* row = reinterpret_cast<const unsigned char*>(corner + r * cols);
        const int past = past_word(row);
        if (i >= 0 && i < rows && w * kShiftWord_bytes < past + width * kSize) {
            stage_word(shared + origin + r * pitch - past + w * kShiftWord_bytes,
                       row - past + w * kShiftWord_bytes, in, in + rows * cols);
        }
    }
    wait_for_copies();
    __syncthreads();  // the tile is whole before its columns are read

#pragma unroll 2
    for (int k = static_cast<int>(threadIdx.x); k < Tile::kCols * PLAN::kWordsY; k += PLAN::kThreads) {
        const int c = k / PLAN::kWordsY;
        const int y = k % PLAN::kWordsY;
        if (c >= width) break;
        T* row = out + (left + c) * rows;
        const int behind = past_word(row + top) / kSize;  // elements from the aligned word to row `top`
        const unsigned char* element =
            shared + origin + (Tile::kHalo - behind + y * Tile::kPack) * pitch + c * kSize;
        Gathered<T> gathered;
#pragma unroll
        for (int p = 0; p < Tile::kPack; ++p)
            gathered.elements[p] = *reinterpret_cast<const T*>(element + p * pitch);
        emit_word<PLAN::kStore>(row, top - behind + y * Tile::kPack, rows, gathered);
    }
}

/// The tiles of `shifted_kernel`: the last aligned word of an output row may start a word later than a tile
/// ends.
template <class T, class PLAN>
BandOrder shifted_order(std::int64_t rows, std::int64_t cols, int band) {
    using Tile = ShiftTile<T, PLAN>;
    return BandOrder::of(rows + Tile::kHalo, cols, Tile::kRows, Tile::kCols, band);
}

constexpr int kThinThreads = 256;
constexpr std::int64_t kThinTile_bytes = 32 * 1024;

/// The tiles of a tall or wide matrix along its long side.
struct ThinTiles {
    int length = 0;  ///< rows (columns) of a tile, a multiple of a word
    unsigned count = 0;
    std::size_t shared_bytes = 0;
};

/// Tall: few columns. A tile is `tile_rows` whole rows, one run of memory; `tile_rows` is a multiple of a
/// word.
template <class T>
__global__ void __launch_bounds__(kThinThreads)
    tall_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows, int cols, int tile_rows) {
    constexpr int kSize = sizeof(T);
    constexpr int kPack = kShiftWord_bytes / kSize;
    constexpr int kHalo = kPack - 1;
    extern __shared__ __align__(16) unsigned char shared[];
    const std::int64_t top = std::int64_t{blockIdx.x} * tile_rows;
    const std::int64_t first = max(top - kHalo, std::int64_t{0});
    const std::int64_t last = min(top + tile_rows, rows);
    const auto* begin = reinterpret_cast<const unsigned char*>(in + first * cols);
    const int origin = past_word(begin);
    const int bytes = static_cast<int>((last - first) * cols) * kSize;
    for (int b = static_cast<int>(threadIdx.x) * kShiftWord_bytes; b < origin + bytes;
         b += kThinThreads * kShiftWord_bytes) {
        stage_word(shared + b, begin - origin + b, in, in + rows * cols);
    }
    wait_for_copies();
    __syncthreads();  // the tile is whole before its columns are read

    const int words = tile_rows / kPack;
    for (int k = static_cast<int>(threadIdx.x); k < cols * words; k += kThinThreads) {
        const int c = k / words;
        const int y = k % words;
        T* row = out + c * rows;
        const int behind = past_word(row + top) / kSize;
        const std::int64_t i = top - behind + y * kPack;
        Gathered<T> gathered;
#pragma unroll
        for (int p = 0; p < kPack; ++p) {
            const auto r = static_cast<int>(i + p - first);
            if (i + p >= 0 && i + p < last)
                gathered.elements[p] = *reinterpret_cast<const T*>(shared + origin + (r * cols + c) * kSize);
        }
        emit_word<Cache::normal>(row, i, rows, gathered);
    }
}

template <class T>
ThinTiles tall_tiles(std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kPack = kShiftWord_bytes / kSize;
    const std::int64_t length = kThinTile_bytes / (cols * kSize) / kPack * kPack;
    return {
        .length = static_cast<int>(length),
        .count = static_cast<unsigned>((rows + kPack - 1 + length - 1) / length),
        .shared_bytes = static_cast<std::size_t>((length + kPack - 1) * cols * kSize + 2 * kShiftWord_bytes)};
}

/// Wide: few rows. A tile is `tile_cols` whole columns, whose transpose is one run of memory; `tile_cols` is
/// a multiple of a word.
template <class T>
__global__ void __launch_bounds__(kThinThreads)
    wide_kernel(const T* __restrict__ in, T* __restrict__ out, int rows, std::int64_t cols, int tile_cols) {
    constexpr int kSize = sizeof(T);
    constexpr int kPack = kShiftWord_bytes / kSize;
    constexpr int kHalo = kPack - 1;
    extern __shared__ __align__(16) unsigned char shared[];
    const std::int64_t left = std::int64_t{blockIdx.x} * tile_cols;
    const std::int64_t first = max(left - kHalo, std::int64_t{0});
    const std::int64_t last = min(left + tile_cols, cols);
    const T* corner = in + first;
    const int origin = past_word(corner);
    const int row_words = (tile_cols + kHalo) / kPack + 2;
    const int pitch = (row_words + 1) * kShiftWord_bytes + static_cast<int>(cols * kSize % kShiftWord_bytes);
    for (int k = static_cast<int>(threadIdx.x); k < rows * row_words; k += kThinThreads) {
        const int r = k / row_words;
        const int w = k % row_words;
        const auto* row = reinterpret_cast<const unsigned char*>(corner + r * cols);
        const int past = past_word(row);
        if (w * kShiftWord_bytes < past + static_cast<int>(last - first) * kSize) {
            stage_word(shared + origin + r * pitch - past + w * kShiftWord_bytes,
                       row - past + w * kShiftWord_bytes, in, in + rows * cols);
        }
    }
    wait_for_copies();
    __syncthreads();  // the tile is whole before its columns are read

    const int behind = past_word(out + left * rows) / kSize;
    const std::int64_t end = last * rows;
    for (int y = static_cast<int>(threadIdx.x); y < tile_cols / kPack * rows; y += kThinThreads) {
        const std::int64_t e = left * rows - behind + y * kPack;
        if (e >= end) break;
        const int skipped = e < 0 ? static_cast<int>(-e) : 0;  // places before the output's begin
        auto c = static_cast<int>((e + skipped - first * rows) / rows);
        auto r = static_cast<int>((e + skipped - first * rows) % rows);
        Gathered<T> gathered;
#pragma unroll
        for (int p = 0; p < kPack; ++p) {
            if (p < skipped || e + p >= end) continue;
            gathered.elements[p] = *reinterpret_cast<const T*>(shared + origin + r * pitch + c * kSize);
            if (++r == rows) {
                r = 0;
                ++c;
            }
        }
        emit_word<Cache::normal>(out, e, rows * cols, gathered);
    }
}

template <class T>
ThinTiles wide_tiles(std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kPack = kShiftWord_bytes / kSize;
    const std::int64_t length = kThinTile_bytes / (rows * kSize) / kPack * kPack;
    const std::int64_t row_words = (length + kPack - 1) / kPack + 2;
    return {.length = static_cast<int>(length),
            .count = static_cast<unsigned>((rows * cols + kPack - 1 + length * rows - 1) / (length * rows)),
            .shared_bytes = static_cast<std::size_t>(rows * (row_words + 2) * kShiftWord_bytes)};
}

}  // namespace gpumat::transpose::gpu
