#pragma once

#include <cstdint>

#include "kernels/common/access.cuh"

namespace gpumat::transpose::gpu {

/// How `vectorized` works where the rows of both matrices are whole words.
///
/// WORD_BYTES  of one global access
/// WORDS_X     words in a row of the input's tile
/// WORDS_Y     words in a row of the output's tile, a power of two
/// THREADS     of a block
/// BAND        tile rows in a band of the block order
/// LOAD, STORE what the accesses ask of the caches
/// RESIDENT    persistent blocks a multiprocessor; 0: a block a tile
template <int WORD_BYTES, int WORDS_X, int WORDS_Y, int THREADS, int BAND, Cache LOAD = Cache::normal,
          Cache STORE = Cache::normal, int RESIDENT = 0>
struct WordPlan {
    static constexpr int kWord_bytes = WORD_BYTES;
    static constexpr int kWordsX = WORDS_X;
    static constexpr int kWordsY = WORDS_Y;
    static constexpr int kThreads = THREADS;
    static constexpr int kBand = BAND;
    static constexpr Cache kLoad = LOAD;
    static constexpr Cache kStore = STORE;
    static constexpr int kResident = RESIDENT;
    static constexpr bool kPersistent = RESIDENT > 0;
};

/// How `vectorized` works where they are not: WORDS_X 16-byte words that the columns of a tile fill (one more
/// is read), WORDS_Y 16-byte words in a row of the output's tile, a power of two.
template <int WORDS_X, int WORDS_Y, int THREADS, int BAND, Cache STORE = Cache::normal>
struct ShiftPlan {
    static constexpr int kWordsX = WORDS_X;
    static constexpr int kWordsY = WORDS_Y;
    static constexpr int kThreads = THREADS;
    static constexpr int kBand = BAND;
    static constexpr Cache kStore = STORE;
};

/// How `tma` works: BOXES_X boxes of 128 bytes in a row of the input's tile, BOXES_Y in a row of the
/// output's, THREADS of a block, STAGES of tiles in flight, BAND as above. STAGED: the copy engine also
/// writes, else the threads do, with STORE. PERSISTENT: as many blocks as fit, else a block a tile.
template <int BOXES_X, int BOXES_Y, int THREADS, int STAGES, int BAND, bool STAGED, bool PERSISTENT,
          Cache STORE = Cache::normal>
struct TmaPlan {
    static constexpr int kBoxesX = BOXES_X;
    static constexpr int kBoxesY = BOXES_Y;
    static constexpr int kThreads = THREADS;
    static constexpr int kStages = STAGES;
    static constexpr int kBand = BAND;
    static constexpr bool kStaged = STAGED;
    static constexpr bool kPersistent = PERSISTENT;
    static constexpr Cache kStore = STORE;
};

/// A band of every tile row: column order.
inline constexpr int kColumns = 1 << 20;

/// The choices for one element size, a line a choice. Large, Small and those for rows that are not whole
/// words were measured on an H200 for 1 to 8 bytes; Tma, Swap and the 16-byte elements are reasoned, not
/// measured.
///
/// Large       whole words, enough tiles to fill the device several times
/// Small       whole words, fewer tiles
/// Scalar      words of one element: rows that are not whole words, unless kShift
/// Shifted     where kShift is set: rows that are not whole words
/// Tma         the plan of `tma`
/// Swap        in place, whole words; a square tile with normal loads
/// SwapScalar  in place, words of one element; likewise
template <int ELEMENT_BYTES>
struct Choices;

template <>
struct Choices<1> {
    using Large = WordPlan<16, 16, 16, 256, kColumns>;
    using Small = WordPlan<8, 16, 16, 128, 1>;
    using Scalar = WordPlan<1, 64, 64, 512, 16>;
    using Shifted = ShiftPlan<7, 16, 256, kColumns>;
    using Tma = TmaPlan<1, 2, 128, 3, 16, true, true>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<1, 64, 64, 512, 1>;
    static constexpr bool kShift = true;
};
template <>
struct Choices<2> {
    using Large = WordPlan<16, 16, 16, 256, kColumns>;
    using Small = WordPlan<16, 16, 16, 256, 1, Cache::once, Cache::once>;
    using Scalar = WordPlan<2, 64, 64, 512, 16>;
    using Shifted = ShiftPlan<15, 16, 256, kColumns>;
    using Tma = TmaPlan<2, 2, 256, 2, 16, true, true>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<2, 64, 64, 512, 1>;
    static constexpr bool kShift = true;
};
template <>
struct Choices<4> {
    using Large = WordPlan<16, 16, 16, 256, kColumns>;
    using Small = WordPlan<16, 16, 16, 256, 1, Cache::once, Cache::once>;
    using Scalar = WordPlan<4, 32, 64, 256, 32>;
    using Shifted = ShiftPlan<15, 16, 256, 32>;
    using Tma = TmaPlan<2, 2, 256, 3, 32, true, true>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<4, 64, 64, 512, 1>;
    static constexpr bool kShift = false;
};
template <>
struct Choices<8> {
    using Large = WordPlan<16, 16, 16, 256, kColumns>;
    using Small = WordPlan<16, 16, 16, 128, kColumns>;
    using Scalar = WordPlan<8, 32, 64, 256, 32>;
    using Shifted = ShiftPlan<15, 16, 256, 32>;
    using Tma = TmaPlan<4, 4, 256, 2, 32, true, true>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<8, 32, 32, 256, 1>;
    static constexpr bool kShift = false;
};
template <>
struct Choices<16> {
    using Large = WordPlan<16, 32, 32, 256, kColumns>;
    using Small = WordPlan<16, 16, 16, 128, kColumns>;
    using Scalar = Small;
    using Shifted = ShiftPlan<15, 16, 256, 32>;
    using Tma = TmaPlan<4, 4, 256, 3, 32, true, true>;
    using Swap = WordPlan<16, 16, 16, 128, 1>;
    using SwapScalar = Swap;
    static constexpr bool kShift = false;
};

/// Fewer tiles than this for each multiprocessor make a matrix small.
inline constexpr unsigned kSmallTiles = 4;

/// A matrix with at most this many columns (rows) is tall (wide): a tile holds whole rows (columns) of it.
inline constexpr int kThin = 31;

}  // namespace gpumat::transpose::gpu
