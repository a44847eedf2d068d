#pragma once

// The kernels of `vectorized` for matrices whose rows are not whole words, or not whole sectors. See
// vectorized.cu.
//
// Device memory moves sectors of 32 bytes. A run of an output row that starts or ends inside a sector leaves
// a part of it in L2, which must be read back and merged where the other part does not come in time. So a
// tile's output rows start at different input rows: each at the aligned place in memory that is at or before
// the tile's first row. Every aligned piece of an output row belongs to exactly one tile, and the up to 28
// bytes of input rows above the tile that this takes are read twice, the second time from L2.
//
// Input rows are copied to shared memory as they lie, in aligned words: row r starts at origin + r·pitch,
// where pitch and the row in memory leave the same remainder by the word. The lanes of a warp write
// neighbours in an output row, so they read a column of the tile; at an odd pitch (in elements) these lie in
// different banks. Words of 8 and 16 bytes allow one where the number of columns is odd, words of an element
// always. Fewer and wider copies are worth some conflicts: tuning.hpp says from how many on they are not. A
// run of an input row starts and ends inside a line of memory; the copies prefetch whole lines into L2, so
// that the tile beside finds its part there.
#include <cstdint>

#include "kernels/common/access.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/order.hpp"
#include "kernels/transpose/gpu/tuning.hpp"

namespace gpumat::transpose::gpu {

/// The bytes by which an address passes a multiple of ALIGN_BYTES.
template <int ALIGN_BYTES>
__device__ __forceinline__ int past_multiple(const void* address) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % ALIGN_BYTES);
}

/// Copies the part of an aligned word that lies in the matrix [begin, end) to shared memory. `shared` has the
/// alignment of `word`.
template <int WORD_BYTES, class T>
__device__ __forceinline__ void stage_word(unsigned char* shared, const unsigned char* word, const T* begin,
                                           const T* end) {
    const auto* first = reinterpret_cast<const T*>(word);
    constexpr int kPack = WORD_BYTES / static_cast<int>(sizeof(T));
    if constexpr (kPack == 1) {
        copy_word_async<WORD_BYTES, Cache::normal>(shared, word);
    } else if (first >= begin && first + kPack <= end) {
        copy_word_async<WORD_BYTES, Cache::normal>(shared, word);
    } else {
        for (int p = 0; p < kPack; ++p) {
            if (first + p >= begin && first + p < end) reinterpret_cast<T*>(shared)[p] = first[p];
        }
    }
}

/// An output word in registers, element by element.
template <class T, int WORD_BYTES>
struct Gathered {
    using Word = typename WordOf<WORD_BYTES>::type;
    static constexpr int kPack = WORD_BYTES / static_cast<int>(sizeof(T));
    union {
        Word word;
        T elements[kPack];
    };
};

/// Writes the elements of `gathered` whose places in the row [begin, end) are from `first` on.
template <Cache STORE, class T, int WORD_BYTES>
__device__ __forceinline__ void emit_word(T* row, std::int64_t first, std::int64_t end,
                                          const Gathered<T, WORD_BYTES>& gathered) {
    using Out = Gathered<T, WORD_BYTES>;
    if (first >= 0 && first + Out::kPack <= end) {
        store_word<STORE>(reinterpret_cast<typename Out::Word*>(row + first), gathered.word);
        return;
    }
#pragma unroll
    for (int p = 0; p < Out::kPack; ++p) {
        if (first + p >= 0 && first + p < end) row[first + p] = gathered.elements[p];
    }
}

/// The narrowest word that copies to shared memory have and that holds whole elements.
template <class T>
inline constexpr int kNarrowest_bytes = sizeof(T) < 4 ? 4 : static_cast<int>(sizeof(T));

/// The pitch from `least_bytes` on that leaves `remainder` by `word_bytes` and keeps the elements of a column
/// in different banks as well as may be: its count of elements has the fewest factors of two.
inline int bank_pitch(int least_bytes, int remainder, int word_bytes, int element_bytes) {
    int best = 0;
    for (int pitch = least_bytes; pitch < least_bytes + 2 * word_bytes; ++pitch) {
        if (pitch % word_bytes != remainder) continue;
        const int elements = pitch / element_bytes;
        if (best == 0 || (elements & -elements) < (best / element_bytes & -(best / element_bytes)))
            best = pitch;
    }
    return best;
}

/// The sizes that follow from a plan for elements of type T.
template <class T, class PLAN>
struct ShiftTile {
    static constexpr int kSize = sizeof(T);
    static constexpr int kWord_bytes = PLAN::kWord_bytes;
    static constexpr int kRow_bytes = PLAN::kRowWords * 16;
    /// A row's words hold this many columns wherever in a word the first lies.
    static constexpr int kCols = (kRow_bytes / kWord_bytes - 1) * (kWord_bytes / kSize) + 1;
    static constexpr int kRows = PLAN::kRows;
    static constexpr int kStore_bytes = kNarrowest_bytes<T>;
    static constexpr int kPack = kStore_bytes / kSize;            ///< elements an output word
    static constexpr int kHalo = PLAN::kAlign_bytes / kSize - 1;  ///< rows above the tile
    static constexpr int kRun = kRows / (kPack * 32);             ///< output words of a lane in a row
    static constexpr int kWarps = PLAN::kThreads / 32;

    static_assert(kRows % (kPack * 32) == 0, "whole warps write a row");
    static_assert(kRows * kSize % PLAN::kAlign_bytes == 0, "all tiles are shifted alike");
    static_assert(PLAN::kAlign_bytes % kStore_bytes == 0, "an aligned piece is whole words");
    static_assert(PLAN::kThreads % 32 == 0, "whole warps");

    static int pitch(std::int64_t in_pitch) {
        return bank_pitch(kRow_bytes + kWord_bytes, static_cast<int>(in_pitch % 16 * kSize % kWord_bytes),
                          kWord_bytes, kSize);
    }
    static constexpr std::size_t shared_bytes(int pitch) {
        return static_cast<std::size_t>(kRows + kHalo) * static_cast<std::size_t>(pitch) + 32;
    }
    /// For any number of columns; see bank_pitch.
    static constexpr std::size_t most_shared_bytes() { return shared_bytes(kRow_bytes + 3 * kWord_bytes); }
};

/// Copies the input rows of the tile. WHOLE: all of their words lie in the matrix.
template <class T, class PLAN, bool WHOLE>
__device__ __forceinline__ void stage_tile(unsigned char* shared, const T* in, std::int64_t rows,
                                           std::int64_t cols, std::int64_t in_pitch, std::int64_t top,
                                           std::int64_t left, int pitch) {
    using Tile = ShiftTile<T, PLAN>;
    constexpr int kWords = Tile::kRow_bytes / Tile::kWord_bytes;  // of a row
    constexpr int kStep = PLAN::kThreads / kWords;                // rows that the block copies at once
    constexpr int kLoaded = Tile::kRows + Tile::kHalo;
    static_assert(PLAN::kThreads % kWords == 0, "whole rows at once");
    const int byte = static_cast<int>(threadIdx.x) % kWords * Tile::kWord_bytes;
    const int width = static_cast<int>(min(std::int64_t{Tile::kCols}, cols - left)) * Tile::kSize;
    int r = static_cast<int>(threadIdx.x) / kWords;
    const T* corner =
        in + (top - Tile::kHalo) * in_pitch + left;  // may lie before the matrix: not read there
    const auto* row = reinterpret_cast<const unsigned char*>(corner + r * in_pitch);
    const std::int64_t step = kStep * in_pitch * Tile::kSize;
    unsigned char* place = shared + past_multiple<Tile::kWord_bytes>(corner) + r * pitch + byte;
#pragma unroll 4
    for (; r < kLoaded; r += kStep, row += step, place += kStep * pitch) {
        const int past = Tile::kWord_bytes == Tile::kSize ? 0 : past_multiple<Tile::kWord_bytes>(row);
        const std::int64_t i = top - Tile::kHalo + r;
        if constexpr (WHOLE) {
            copy_word_async<Tile::kWord_bytes, Cache::keep>(place - past, row - past + byte);
        } else if (i >= 0 && i < rows && byte < past + width) {
            stage_word<Tile::kWord_bytes>(place - past, row - past + byte, in,
                                          in + (rows - 1) * in_pitch + cols);
        }
    }
}

/// Writes the output rows of the tile. WHOLE: all of their words lie in the matrix.
template <class T, class PLAN, bool WHOLE>
__device__ __forceinline__ void emit_tile(const unsigned char* shared, const T* in, T* out, std::int64_t rows,
                                          std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch,
                                          std::int64_t top, std::int64_t left, int pitch) {
    using Tile = ShiftTile<T, PLAN>;
    using Out = Gathered<T, Tile::kStore_bytes>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int width = static_cast<int>(min(std::int64_t{Tile::kCols}, cols - left));
    int c = static_cast<int>(threadIdx.x) / 32;
    T* row = out + (left + c) * out_pitch;
    const int origin = past_multiple<Tile::kWord_bytes>(in + (top - Tile::kHalo) * in_pitch + left);
    const unsigned char* column =
        shared + origin + (Tile::kHalo + lane * Tile::kPack) * pitch + c * Tile::kSize;
#pragma unroll 2
    for (; c < width;
         c += Tile::kWarps, row += Tile::kWarps * out_pitch, column += Tile::kWarps * Tile::kSize) {
        const int behind = past_multiple<PLAN::kAlign_bytes>(row + top) / Tile::kSize;
        const unsigned char* element = column - behind * pitch;
        T* first = row + top - behind + lane * Tile::kPack;
#pragma unroll
        for (int k = 0; k < Tile::kRun; ++k) {
            Out gathered;
#pragma unroll
            for (int p = 0; p < Tile::kPack; ++p)
                gathered.elements[p] =
                    *reinterpret_cast<const T*>(element + (k * 32 * Tile::kPack + p) * pitch);
            if constexpr (WHOLE) {
                store_word<PLAN::kStore>(reinterpret_cast<typename Out::Word*>(first + k * 32 * Tile::kPack),
                                         gathered.word);
            } else {
                emit_word<PLAN::kStore>(row, first - row + k * 32 * Tile::kPack, rows, gathered);
            }
        }
    }
}

template <class T, class PLAN>
__global__ void __launch_bounds__(PLAN::kThreads, resident_blocks(PLAN::kBlocks, PLAN::kThreads))
    shifted_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows, std::int64_t cols,
                   std::int64_t in_pitch, std::int64_t out_pitch, int pitch, TileOrder order) {
    using Tile = ShiftTile<T, PLAN>;
    extern __shared__ __align__(16) unsigned char shared[];
    const TilePlace at = order.tile(place_of_block());
    if (!order.holds(at)) return;
    const std::int64_t top = std::int64_t{at.y} * Tile::kRows;
    const std::int64_t left = std::int64_t{at.x} * Tile::kCols;
    // A row of the matrix above and below keeps words that cross the ends of a row in the matrix.
    const bool whole = top > Tile::kHalo && top + Tile::kRows < rows && left + Tile::kCols <= cols &&
                       cols * Tile::kSize >= Tile::kRow_bytes;
    if (whole) {
        stage_tile<T, PLAN, true>(shared, in, rows, cols, in_pitch, top, left, pitch);
    } else {
        stage_tile<T, PLAN, false>(shared, in, rows, cols, in_pitch, top, left, pitch);
    }
    wait_for_copies();
    __syncthreads();  // the tile is whole before its columns are read
    if (whole) {
        emit_tile<T, PLAN, true>(shared, in, out, rows, cols, in_pitch, out_pitch, top, left, pitch);
    } else {
        emit_tile<T, PLAN, false>(shared, in, out, rows, cols, in_pitch, out_pitch, top, left, pitch);
    }
}

/// The tiles of `shifted_kernel`. The last aligned piece of an output row may start after the rows' tiles
/// end.
template <class T, class PLAN>
Tiling shift_tiling(std::int64_t rows, std::int64_t cols) {
    using Tile = ShiftTile<T, PLAN>;
    return {rows + Tile::kHalo, cols, Tile::kSize, Tile::kRows, Tile::kCols};
}

}  // namespace gpumat::transpose::gpu
