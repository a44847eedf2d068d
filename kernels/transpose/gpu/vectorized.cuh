#pragma once

// The kernels of `vectorized` for matrices whose rows, on both sides, are whole words. See vectorized.cu.
#include <cstdint>

#include "kernels/common/access.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/order.hpp"
#include "kernels/transpose/gpu/prefetch.cuh"
#include "kernels/transpose/gpu/register_transpose.cuh"
#include "kernels/transpose/gpu/tuning.hpp"

namespace gpumat::transpose::gpu {

/// The sizes that follow from a plan for elements of type T.
template <class T, class PLAN>
struct WordTile {
    using Word = typename WordOf<PLAN::kWord_bytes>::type;
    static constexpr int kPack = PLAN::kWord_bytes / static_cast<int>(sizeof(T));    ///< elements a word
    static constexpr int kCols = PLAN::kWordsX * kPack;                              ///< columns of the tile
    static constexpr int kRows = PLAN::kWordsY * kPack;                              ///< rows of the tile
    static constexpr int kRow_bytes = PLAN::kWordsX * PLAN::kWord_bytes;             ///< of the tile
    static constexpr int kSquares = PLAN::kWordsX * PLAN::kWordsY / PLAN::kThreads;  ///< squares a thread
    /// Words that a phase of a shared access moves: 32 banks of 4 bytes.
    static constexpr int kPhase = 128 / PLAN::kWord_bytes;
    /// Words narrower than a bank are spread by padding, wider ones by swizzling.
    static constexpr bool kSwizzled = PLAN::kWord_bytes >= 4;
    static constexpr int kPitch = PLAN::kWordsY + (kSwizzled ? 0 : 4 / PLAN::kWord_bytes);
    static constexpr std::size_t kShared_bytes = sizeof(Word) * kCols * kPitch;

    static Tiling tiling(std::int64_t rows, std::int64_t cols) {
        return {rows, cols, static_cast<int>(sizeof(T)), kRows, kCols};
    }

    static_assert(PLAN::kWord_bytes % sizeof(T) == 0, "a word holds whole elements");
    static_assert(PLAN::kWordsX * PLAN::kWordsY % PLAN::kThreads == 0, "all threads have the same work");
    static_assert(PLAN::kThreads % PLAN::kWordsX == 0 && PLAN::kThreads % PLAN::kWordsY == 0,
                  "a block moves whole rows at once");
    static_assert((PLAN::kWordsY & (PLAN::kWordsY - 1)) == 0, "the swizzle permutes a power of two of words");

    /// Where word y of tile column c (an output row) lies. Writers have consecutive squares in x at one y,
    /// readers consecutive y at one c: in both the words of a phase lie in different banks, as long as the
    /// tile has as many in a row and in a column. In a lower or narrower one those of writers may not.
    static __device__ __forceinline__ unsigned slot(unsigned c, unsigned y) {
        if constexpr (kSwizzled) {
            return c * kPitch + (y ^ ((c / kPack) & (kPhase - 1) & (PLAN::kWordsY - 1)));
        } else {
            return c * kPitch + y;
        }
    }

    /// Reads the squares of this thread from the tile at (top, left). WHOLE: the tile lies in the matrix;
    /// else squares outside are left alone.
    template <bool WHOLE>
    static __device__ __forceinline__ void load(Word (&squares)[kSquares][kPack], const Word* in,
                                                std::int64_t rows, std::int64_t cols, std::int64_t in_pitch,
                                                std::int64_t top, std::int64_t left) {
        constexpr int kStep = PLAN::kThreads / PLAN::kWordsX * kPack;  // rows from one square to the next
        constexpr Cache kLoad = WHOLE ? PLAN::kLoad : PLAN::kEdges;
        // Unsigned, as in store: the quotient is then a shift.
        const auto pitch = static_cast<std::int64_t>(static_cast<std::uint64_t>(in_pitch) / kPack);
        const std::int64_t x = left / kPack + threadIdx.x % PLAN::kWordsX;
        const std::int64_t i = top + threadIdx.x / PLAN::kWordsX * kPack;
        const Word* first = in + i * pitch + x;
#pragma unroll
        for (int k = 0; k < kSquares; ++k, first += kStep * pitch) {
            // rows and columns are whole words: a square is in or out
            if (!WHOLE && (x * kPack >= cols || i + k * kStep >= rows)) continue;
#pragma unroll
            for (int r = 0; r < kPack; ++r) squares[k][r] = load_word<kLoad>(first + r * pitch);
        }
    }

    /// Transposes the squares in registers and puts their columns into the shared tile.
    static __device__ __forceinline__ void transpose_into(Word* tile, Word (&squares)[kSquares][kPack]) {
#pragma unroll
        for (int k = 0; k < kSquares; ++k) {
            const unsigned square = threadIdx.x + k * PLAN::kThreads;
            const unsigned c = square % PLAN::kWordsX * kPack;
            const unsigned y = square / PLAN::kWordsX;
            transpose_registers<sizeof(T)>(squares[k]);
#pragma unroll
            for (int r = 0; r < kPack; ++r) tile[slot(c + r, y)] = squares[k][r];
        }
    }

    /// Writes the shared tile that was read at (top, left).
    template <bool WHOLE>
    static __device__ __forceinline__ void store(const Word* tile, Word* out, std::int64_t rows,
                                                 std::int64_t cols, std::int64_t out_pitch, std::int64_t top,
                                                 std::int64_t left) {
        constexpr int kStep = PLAN::kThreads / PLAN::kWordsY;  // output rows from one word to the next
        const auto pitch = static_cast<std::int64_t>(static_cast<std::uint64_t>(out_pitch) / kPack);
        const unsigned y = threadIdx.x % PLAN::kWordsY;
        const unsigned c = threadIdx.x / PLAN::kWordsY;
        Word* word = out + (left + c) * pitch + top / kPack + y;
#pragma unroll
        for (int k = 0; k < kSquares * kPack; ++k, word += kStep * pitch) {
            if (!WHOLE && (left + c + k * kStep >= cols || top + y * kPack >= rows)) continue;
            store_word<PLAN::kStore>(word, tile[slot(c + k * kStep, y)]);
        }
    }
};

/// A block takes the tile at its place in the order.
template <class T, class PLAN, Places PLACES = Places::any>
__global__ void __launch_bounds__(PLAN::kThreads, resident_blocks(PLAN::kBlocks, PLAN::kThreads))
    vectorized_kernel(const void* __restrict__ in, void* __restrict__ out, std::int64_t rows,
                      std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch, TileOrder order) {
    using Tile = WordTile<T, PLAN>;
    using Word = typename Tile::Word;
    extern __shared__ __align__(16) unsigned char shared[];
    Word* tile = reinterpret_cast<Word*>(shared);
    const Place place = place_of_block();
    const TilePlace at = order.template tile<PLACES>(place);
    const bool whole = PLACES != Places::any || order.holds_all(at);
    if (!whole && !order.holds(at)) return;
    const std::int64_t top = std::int64_t{at.y} * Tile::kRows;
    const std::int64_t left = std::int64_t{at.x} * Tile::kCols;
    Word squares[Tile::kSquares][Tile::kPack];
    if (whole) {
        Tile::template load<true>(squares, static_cast<const Word*>(in), rows, cols, in_pitch, top, left);
    } else {
        Tile::template load<false>(squares, static_cast<const Word*>(in), rows, cols, in_pitch, top, left);
    }
    if constexpr (PLAN::kAhead > 0) {
        prefetch_tile<Tile::kRows, Tile::kRow_bytes, PLAN::kThreads, PLACES>(
            order, place, in, in_pitch * static_cast<int>(sizeof(T)));
    }
    Tile::transpose_into(tile, squares);
    __syncthreads();  // the tile is whole before its rows are read
    if (whole) {
        Tile::template store<true>(tile, static_cast<Word*>(out), rows, cols, out_pitch, top, left);
    } else {
        Tile::template store<false>(tile, static_cast<Word*>(out), rows, cols, out_pitch, top, left);
    }
}

/// vectorized_kernel of some plan and places.
using WordsKernel = void (*)(const void*, void*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                             TileOrder);

/// In place: block (x, y) with y <= x holds tile (y, x) and its mirror image, and writes each where the other
/// was.
template <class T, class PLAN>
__global__ void __launch_bounds__(PLAN::kThreads, 1)
    vectorized_in_place_kernel(void* matrix, std::int64_t size, std::int64_t pitch) {
    using Tile = WordTile<T, PLAN>;
    using Word = typename Tile::Word;
    static_assert(PLAN::kWordsX == PLAN::kWordsY, "a tile and its mirror image have one shape");
    static_assert(PLAN::kLoad == Cache::normal, "the matrix is written by this kernel");
    if (blockIdx.y > blockIdx.x) return;
    extern __shared__ __align__(16) unsigned char shared[];
    Word* upper = reinterpret_cast<Word*>(shared);
    Word* lower = upper + Tile::kShared_bytes / sizeof(Word);
    Word* words = static_cast<Word*>(matrix);
    const std::int64_t top = std::int64_t{blockIdx.y} * Tile::kRows;
    const std::int64_t left = std::int64_t{blockIdx.x} * Tile::kCols;
    Word squares[Tile::kSquares][Tile::kPack];
    Tile::template load<false>(squares, words, size, size, pitch, top, left);
    Tile::transpose_into(upper, squares);
    Tile::template load<false>(squares, words, size, size, pitch, left, top);
    Tile::transpose_into(lower, squares);
    __syncthreads();  // both tiles are read before either is overwritten
    Tile::template store<false>(upper, words, size, size, pitch, top, left);
    Tile::template store<false>(lower, words, size, size, pitch, left, top);
}

}  // namespace gpumat::transpose::gpu
