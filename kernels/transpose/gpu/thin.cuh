#pragma once

// The kernels of `vectorized` for matrices of few columns or few rows that are not whole words. See
// vectorized.cu.
//
// A tile is a run of memory on the thin side and a few long rows on the other. As in shifted.cuh, output
// pieces start at sectors, and input words are copied to shared memory as they lie.
#include <algorithm>
#include <cstdint>

#include "kernels/transpose/gpu/shifted.cuh"

namespace gpumat::transpose::gpu {

constexpr int kThinThreads = 256;
constexpr int kThinWarps = kThinThreads / 32;

/// The tiles of a tall or wide matrix along its long side.
struct ThinTiles {
    int length = 0;  ///< rows (columns) of a tile
    unsigned count = 0;
    std::size_t shared_bytes = 0;
    int pitch_bytes = 0;  ///< wide: from row to row in shared memory
    int warps = 1;        ///< tall: that write one column
};

/// Tall: few columns. A tile is `tile_rows` whole rows, a multiple of what a warp stores. `warps` of the
/// block's write one column together. With SKEWED, every 128 bytes of shared memory are followed by an empty
/// word: an even number of columns between the elements of a column would repeat banks.
template <class T, bool SKEWED>
__global__ void __launch_bounds__(kThinThreads)
    tall_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows, int cols, int tile_rows,
                int warps) {
    constexpr int kSize = sizeof(T);
    constexpr int kStore_bytes = kNarrowest_bytes<T>;
    constexpr int kIn_bytes = SKEWED ? kStore_bytes : 16;
    constexpr int kPack = kStore_bytes / kSize;
    constexpr int kHalo = kSector_bytes / kSize - 1;
    constexpr auto place = [](int byte) { return SKEWED ? byte + byte / 128 * kIn_bytes : byte; };
    extern __shared__ __align__(16) unsigned char shared[];
    const std::int64_t top = std::int64_t{blockIdx.x} * tile_rows;
    const std::int64_t first = max(top - kHalo, std::int64_t{0});
    const std::int64_t last = min(top + tile_rows, rows);
    const auto* begin = reinterpret_cast<const unsigned char*>(in + first * cols);
    const int origin = past_multiple<kIn_bytes>(begin);
    const int bytes = static_cast<int>((last - first) * cols) * kSize;
#pragma unroll 4
    for (int b = static_cast<int>(threadIdx.x) * kIn_bytes; b < origin + bytes; b += kThinThreads * kIn_bytes)
        stage_word<kIn_bytes>(shared + place(b), begin - origin + b, in, in + rows * cols);
    wait_for_copies();
    __syncthreads();  // the tile is whole before its columns are read

    const bool whole = top >= kHalo && top + tile_rows <= rows;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int c = warp / warps; c < cols; c += kThinWarps / warps) {
        T* row = out + c * rows;
        const int behind = past_multiple<kSector_bytes>(row + top) / kSize;
        const std::int64_t start = top - behind;
        const int offset = origin + (static_cast<int>(start - first) * cols + c) * kSize;
#pragma unroll 4
        for (int i = (warp % warps * 32 + lane) * kPack; i < tile_rows; i += warps * 32 * kPack) {
            Gathered<T, kStore_bytes> gathered;
#pragma unroll
            for (int p = 0; p < kPack; ++p) {
                if (whole || (start + i + p >= 0 && start + i + p < last)) {
                    gathered.elements[p] =
                        *reinterpret_cast<const T*>(shared + place(offset + (i + p) * cols * kSize));
                }
            }
            if (whole) {
                *reinterpret_cast<typename Gathered<T, kStore_bytes>::Word*>(row + start + i) = gathered.word;
            } else {
                emit_word<Cache::normal>(row, start + i, rows, gathered);
            }
        }
    }
}

/// How many warps should write one column, of `steps` runs of a warp. Each column costs about a step more.
inline int warps_of_column(std::int64_t cols, std::int64_t steps) {
    int best = kThinWarps;
    std::int64_t least = 0;
    for (int warps = kThinWarps; warps >= 1; warps /= 2) {
        const std::int64_t visits = (cols * warps + kThinWarps - 1) / kThinWarps;  // columns of a warp
        const std::int64_t cost = visits * ((steps + warps - 1) / warps + 1);
        if (least == 0 || cost < least) {
            best = warps;
            least = cost;
        }
    }
    return best;
}

/// Whether a tall tile is SKEWED: where a warp's reads of a column would repeat banks so often that they cost
/// more than copies of narrow words, and where these are no slower. Measured.
template <class T>
constexpr bool skews(std::int64_t cols) {
    switch (sizeof(T)) {
        case 8:
            return cols % 2 == 0 || cols < 64;
        case 4:
            return cols % 16 == 0 || cols <= kFewColumns;
        default:
            return cols % 8 == 0;
    }
}

/// The bytes of a tall tile's input.
inline int tall_tile_bytes(const ThinPlan& plan, std::int64_t cols) {
    if (cols <= kFewColumns) return plan.tall_few_bytes;
    return std::clamp(static_cast<int>(cols) * plan.tall_run_bytes, plan.tall_bytes, kMostThin_bytes);
}

template <class T>
ThinTiles tall_tiles(std::int64_t rows, std::int64_t cols, int tile_bytes) {
    constexpr int kSize = sizeof(T);
    constexpr int kStep = 32 * kNarrowest_bytes<T> / kSize;
    constexpr int kHalo = kSector_bytes / kSize - 1;
    const std::int64_t length = std::max<std::int64_t>(tile_bytes / (cols * kSize) / kStep, 1) * kStep;
    const auto bytes = static_cast<std::size_t>((length + kHalo) * cols * kSize + 32);
    return {.length = static_cast<int>(length),
            .count = static_cast<unsigned>((rows + kHalo + length - 1) / length),
            .shared_bytes = bytes + bytes / 128 * kNarrowest_bytes<T>,
            .warps = warps_of_column(cols, length / kStep)};
}

/// Wide: few rows. A tile is `tile_cols` whole columns, whose transpose is one run of memory; `tile_cols` is
/// a multiple of a sector. Row r of the tile lies in shared memory r·pitch after the first, where `pitch` and
/// the row in memory leave the same remainder by 16.
template <class T>
__global__ void __launch_bounds__(kThinThreads)
    wide_kernel(const T* __restrict__ in, T* __restrict__ out, int rows, std::int64_t cols, int tile_cols,
                int pitch) {
    constexpr int kSize = sizeof(T);
    constexpr int kIn_bytes = 16;
    constexpr int kStore_bytes = kNarrowest_bytes<T>;
    constexpr int kPack = kStore_bytes / kSize;
    constexpr int kHalo = kSector_bytes / kSize - 1;
    extern __shared__ __align__(16) unsigned char shared[];
    const std::int64_t left = std::int64_t{blockIdx.x} * tile_cols;
    const std::int64_t first = max(left - kHalo, std::int64_t{0});
    const std::int64_t last = min(left + tile_cols, cols);
    const T* corner = in + first;
    const int origin = past_multiple<kIn_bytes>(corner);
    const int row_bytes = static_cast<int>(last - first) * kSize;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warps = ((tile_cols + kHalo) * kSize / kIn_bytes + 2 + 31) / 32;  // a row
#pragma unroll 4
    for (int k = static_cast<int>(threadIdx.x) / 32; k < rows * warps; k += kThinWarps) {
        const int r = k / warps;
        const int byte = (k % warps * 32 + lane) * kIn_bytes;
        const auto* row = reinterpret_cast<const unsigned char*>(corner + r * cols);
        const int past = past_multiple<kIn_bytes>(row);
        if (byte < past + row_bytes)
            stage_word<kIn_bytes>(shared + origin + r * pitch - past + byte, row - past + byte, in,
                                  in + rows * cols);
    }
    wait_for_copies();
    __syncthreads();  // the tile is whole before its columns are read

    const int behind = past_multiple<kSector_bytes>(out + left * rows) / kSize;
    const std::int64_t start = left * rows - behind;
    const std::int64_t end = min(start + std::int64_t{tile_cols} * rows, cols * rows);
    const int word = static_cast<int>(threadIdx.x) * kPack;
    // The column and row of the word's first element, the column counted from `first`; it is negative for
    // places before the output's begin.
    int c = (word - behind + kHalo * rows) / rows - kHalo;
    int r = word - behind - c * rows;
    c += static_cast<int>(left - first);
    const int step_c = kThinThreads * kPack / rows;
    const int step_r = kThinThreads * kPack % rows;
    const int next_column = kSize - rows * pitch;
    const bool whole = left >= kHalo && start + std::int64_t{tile_cols} * rows <= cols * rows;
    const auto count = static_cast<int>(end - start);
    T* const run = out + start;
#pragma unroll 4
    for (int e = word; e < count; e += kThinThreads * kPack) {
        Gathered<T, kStore_bytes> gathered;
        const unsigned char* element = shared + origin + r * pitch + c * kSize;
        int at_r = r;
#pragma unroll
        for (int p = 0; p < kPack; ++p) {
            if (whole || (start + e + p >= 0 && e + p < count))
                gathered.elements[p] = *reinterpret_cast<const T*>(element);
            element += pitch;
            if (++at_r == rows) {
                at_r = 0;
                element += next_column;
            }
        }
        if (whole) {
            *reinterpret_cast<typename Gathered<T, kStore_bytes>::Word*>(run + e) = gathered.word;
        } else {
            emit_word<Cache::normal>(out, start + e, end, gathered);
        }
        c += step_c;
        r += step_r;
        if (r >= rows) {
            r -= rows;
            ++c;
        }
    }
}

/// The least pitch from `bytes` on that leaves `remainder` by 16, and by 128 about what a row's part of 128
/// output bytes takes: then the rows' parts lie in different banks.
inline int wide_pitch(int bytes, int remainder, int rows) {
    const int part = (128 + rows - 1) / rows;
    int pitch = bytes;
    while (pitch % 16 != remainder || (pitch + 128 - part) % 128 >= 16) ++pitch;
    return pitch;
}

/// Columns of a wide tile of about that many bytes. A warp copies 512 bytes of a row at once, in words that
/// start before the row and end after it, and all of its lanes should have one.
template <class T>
int wide_length(std::int64_t rows, int tile_bytes) {
    constexpr int kSize = sizeof(T);
    constexpr int kStep = kSector_bytes / kSize;
    constexpr int kCopied_bytes = 512;
    const auto few = static_cast<int>(rows);
    const int copies = std::max((tile_bytes + few * kCopied_bytes * 7 / 10) / (few * kCopied_bytes), 1);
    const int whole = (copies * kCopied_bytes - 32) / kSize - kStep;
    return std::max(std::min(whole, kMostThin_bytes / (few * kSize)) / kStep, 1) * kStep;
}

template <class T>
ThinTiles wide_tiles(std::int64_t rows, std::int64_t cols, int length) {
    constexpr int kSize = sizeof(T);
    constexpr int kStep = kSector_bytes / kSize;
    const int pitch = wide_pitch(static_cast<int>(length + kStep) * kSize + 32,
                                 static_cast<int>(cols % 16 * kSize % 16), static_cast<int>(rows));
    return {.length = length,
            .count = static_cast<unsigned>((cols + kStep - 1 + length - 1) / length),
            .shared_bytes = static_cast<std::size_t>(rows) * pitch + 32,
            .pitch_bytes = pitch};
}

}  // namespace gpumat::transpose::gpu
