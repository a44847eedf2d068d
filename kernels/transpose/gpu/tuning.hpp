#pragma once

#include <cstdint>

#include "kernels/common/access.cuh"
#include "kernels/transpose/gpu/order.hpp"

namespace gpumat::transpose::gpu {

/// How `vectorized` works where the rows of both matrices are whole words.
///
/// WORD_BYTES  of one global access
/// WORDS_X     words in a row of the input's tile
/// WORDS_Y     words in a row of the output's tile, a power of two
/// THREADS     of a block
/// BAND        tile rows in a band of the block order; Ragged's follows from the shape (TileOrder)
/// LOAD, STORE cache hints of the accesses
/// AHEAD       how many places ahead in the order a block prefetches a tile into L2, or 0 (prefetch.cuh).
///             2 to 4 MiB: of less a part comes too late, of more a part has left L2 again
/// BLOCKS      for which a multiprocessor has registers, where it holds as many threads, and sets shared
///             memory aside, the rest being L1; 0: the compiler and the driver decide
/// EDGES       cache hints of loads in tiles that reach beyond the matrix
template <int WORD_BYTES, int WORDS_X, int WORDS_Y, int THREADS, int BAND, Cache LOAD = Cache::normal,
          Cache STORE = Cache::normal, int AHEAD = 0, int BLOCKS = 0,
          Cache EDGES = LOAD == Cache::keep ? Cache::normal : LOAD>
struct WordPlan {
    static constexpr int kWord_bytes = WORD_BYTES;
    static constexpr int kWordsX = WORDS_X;
    static constexpr int kWordsY = WORDS_Y;
    static constexpr int kThreads = THREADS;
    static constexpr int kBand = BAND;
    static constexpr Cache kLoad = LOAD;
    static constexpr Cache kStore = STORE;
    static constexpr int kAhead = AHEAD;
    static constexpr int kBlocks = BLOCKS;
    static constexpr Cache kEdges = EDGES;
};

/// The WordPlan of a matrix with a side of few words: tiles of X words by Y, X·Y threads.
template <int WORD_BYTES, int X, int Y>
using ShortPlan = WordPlan<WORD_BYTES, X, Y, X * Y, kColumns, Cache::keep, Cache::normal, 0, 0, Cache::keep>;

/// Plans, the first of which that serves is taken.
template <class... PLANS>
struct Plans {};

/// How `vectorized` works where rows are not whole words, and where they are not whole sectors.
///
/// WORD_BYTES  of a copy to shared memory: 16, 8, or the narrowest that holds an element (4, 8)
/// ROW_WORDS   words of 16 bytes that a row of the input's tile fills, wherever it starts
/// ROWS        of the input's tile
/// ALIGN_BYTES at multiples of which the output rows of a tile start in memory
/// BLOCKS      as above; copies of 4 and 8 bytes go through L1
template <int WORD_BYTES, int ROW_WORDS, int ROWS, int ALIGN_BYTES, int THREADS, Cache STORE = Cache::normal,
          int BLOCKS = 0>
struct ShiftPlan {
    static constexpr int kWord_bytes = WORD_BYTES;
    static constexpr int kRowWords = ROW_WORDS;
    static constexpr int kRows = ROWS;
    static constexpr int kAlign_bytes = ALIGN_BYTES;
    static constexpr int kThreads = THREADS;
    static constexpr Cache kStore = STORE;
    static constexpr int kBlocks = BLOCKS;
};

/// How `tma` works: BOXES_X boxes of 128 bytes in a row of the input's tile, BOXES_Y runs of 128 bytes in a
/// row of the output's, THREADS of a block, BAND and BLOCKS as above.
template <int BOXES_X, int BOXES_Y, int THREADS, int BAND, int BLOCKS = 0>
struct TmaPlan {
    static constexpr int kBoxesX = BOXES_X;
    static constexpr int kBoxesY = BOXES_Y;
    static constexpr int kThreads = THREADS;
    static constexpr int kBand = BAND;
    static constexpr int kBlocks = BLOCKS;
};

/// How `vectorized` works where a matrix has few columns (tall) or few rows (wide), and those are not whole
/// words of the kind that its Low has: up to how many, and how large tiles are, in bytes of the input.
struct ThinPlan {
    int tall_most;        ///< columns
    int wide_most;        ///< rows
    int wide_most_words;  ///< where rows of the input are whole words
    int tall_few_bytes;   ///< a tile of at most kFewColumns columns
    int tall_bytes;       ///< a tile of more columns, or more bytes:
    int tall_run_bytes;   ///< so many of a column
    int wide_bytes;
};
inline constexpr int kFewColumns = 24;
inline constexpr int kMostThin_bytes = 64 << 10;  ///< of a tile, without what aligns and separates its rows

/// The choices for one element size, a line a choice. All but Swap and SwapScalar, which are reasoned, were
/// measured on an H200.
///
/// Words are whole where rows of both matrices, and the matrices, start at multiples of them.
///
/// Low, Narrow few rows, few columns, in whole words: from the smallest tile on, the first that holds them
/// Large       rows of whole lines of 128 bytes, whole tiles, at least kLargeTiles for each multiprocessor
/// Ragged      whole words else. Tiles may share lines
/// Small       whole words, fewer than kSmallTiles tiles of Large for each multiprocessor, or fewer rows or
///             columns than kSmallSide
/// Fine        whole words narrower than Ragged's, unless L2 lacks room for a column of its tiles
/// FineSmall   the same where Small would serve
/// Shifted     rows that are not whole words; enough tiles of 4 and 8 bytes also where rows are not whole
///             sectors in either matrix
/// ShiftedSmall  the same, fewer than kSmallShifted tiles of Shifted for each multiprocessor, or no room for
///             its BLOCKS there
/// ShiftedNarrow  the same where the number of columns is a multiple of kNarrow_columns, so that the words of
///             a column of Shifted's tile lie in fewer banks
/// Tma         the plan of `tma`
/// Swap        in place, whole words; a square tile with normal loads
/// SwapScalar  in place, words of one element; likewise
/// kThin       few columns or few rows, no whole words of the kind that Low has
template <int ELEMENT_BYTES>
struct Choices;

template <>
struct Choices<1> {
    using Low = Plans<ShortPlan<8, 64, 1>, ShortPlan<8, 32, 4>, ShortPlan<8, 32, 8>, ShortPlan<8, 32, 16>>;
    using Narrow = Plans<ShortPlan<8, 2, 64>, ShortPlan<8, 4, 32>, ShortPlan<8, 8, 32>, ShortPlan<8, 16, 32>>;
    using Large = WordPlan<8, 32, 32, 512, kColumns, Cache::last, Cache::normal, 0, 2>;
    using Ragged = WordPlan<8, 32, 32, 512, kColumns, Cache::keep, Cache::normal, 0, 2>;
    using Small = WordPlan<8, 16, 16, 128, kColumns, Cache::once, Cache::once>;
    using Fine = WordPlan<4, 32, 64, 512, kColumns, Cache::keep>;
    using FineSmall = WordPlan<4, 32, 32, 256, kColumns, Cache::keep>;
    using Shifted = ShiftPlan<16, 16, 256, 32, 512, Cache::normal, 2>;
    using ShiftedSmall = ShiftPlan<16, 8, 256, 32, 512, Cache::normal, 2>;
    using ShiftedNarrow = ShiftPlan<4, 16, 128, 32, 256>;
    using Tma = TmaPlan<2, 1, 128, kColumns, 4>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<1, 64, 64, 512, 1>;
    static constexpr int kNarrow_columns = 4;
    static constexpr unsigned kSmallTiles = 4;
    static constexpr std::int64_t kSmallSide = 0;
    static constexpr unsigned kLargeTiles = 4;
    static constexpr unsigned kSmallShifted = 3;
    static constexpr ThinPlan kThin{.tall_most = 159,
                                    .wide_most = 319,
                                    .wide_most_words = 47,
                                    .tall_few_bytes = 24 << 10,
                                    .tall_bytes = 32 << 10,
                                    .tall_run_bytes = 400,
                                    .wide_bytes = 32 << 10};
};
template <>
struct Choices<2> {
    using Low = Plans<ShortPlan<16, 64, 2>, ShortPlan<8, 32, 4>, ShortPlan<16, 32, 4>, ShortPlan<16, 16, 8>,
                      ShortPlan<8, 32, 16>>;
    using Narrow = Plans<ShortPlan<16, 2, 64>, ShortPlan<8, 4, 32>, ShortPlan<16, 4, 32>,
                         ShortPlan<16, 8, 16>, ShortPlan<8, 16, 32>>;
    using Large = WordPlan<8, 32, 32, 1024, kColumns, Cache::last, Cache::normal, 80, 2>;
    using Ragged = WordPlan<16, 16, 16, 256, kColumns, Cache::keep, Cache::normal, 0, 3, Cache::keep>;
    using Small = WordPlan<8, 16, 16, 256, kColumns, Cache::once>;
    using Fine = WordPlan<8, 32, 32, 1024, kColumns, Cache::keep>;
    using FineSmall = Small;
    using Shifted = ShiftPlan<8, 16, 192, 32, 512, Cache::normal, 2>;
    using ShiftedSmall = ShiftPlan<16, 16, 128, 32, 512, Cache::normal, 2>;
    using ShiftedNarrow = ShiftPlan<8, 16, 192, 32, 384, Cache::normal, 3>;
    using Tma = TmaPlan<1, 1, 64, kColumns, 6>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<2, 64, 64, 512, 1>;
    static constexpr int kNarrow_columns = 2;
    static constexpr unsigned kSmallTiles = 3;
    static constexpr std::int64_t kSmallSide = 0;
    static constexpr unsigned kLargeTiles = 14;
    static constexpr unsigned kSmallShifted = 3;
    static constexpr ThinPlan kThin{.tall_most = 151,
                                    .wide_most = 207,
                                    .wide_most_words = 39,
                                    .tall_few_bytes = 48 << 10,
                                    .tall_bytes = 48 << 10,
                                    .tall_run_bytes = 640,
                                    .wide_bytes = 32 << 10};
};
template <>
struct Choices<4> {
    using Low = Plans<ShortPlan<16, 64, 2>, ShortPlan<16, 16, 8>>;
    using Narrow = Plans<ShortPlan<16, 2, 64>, ShortPlan<16, 8, 16>>;
    using Large = WordPlan<8, 32, 32, 1024, kColumns, Cache::normal, Cache::normal, 176, 2>;
    using Ragged = WordPlan<8, 32, 32, 512, kColumns, Cache::keep>;
    using Small = WordPlan<16, 16, 16, 128, kColumns, Cache::once, Cache::once>;
    using Shifted = ShiftPlan<8, 22, 128, 32, 352, Cache::normal, 2>;
    using ShiftedSmall = ShiftPlan<8, 16, 64, 32, 256, Cache::normal, 4>;
    using Tma = TmaPlan<2, 2, 128, kColumns, 3>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<4, 64, 64, 512, 1>;
    static constexpr unsigned kSmallTiles = 8;
    static constexpr std::int64_t kSmallSide = 64;
    static constexpr unsigned kLargeTiles = 56;
    static constexpr unsigned kSmallShifted = 12;
    static constexpr ThinPlan kThin{.tall_most = 127,
                                    .wide_most = 143,
                                    .wide_most_words = 51,
                                    .tall_few_bytes = 16 << 10,
                                    .tall_bytes = 32 << 10,
                                    .tall_run_bytes = 400,
                                    .wide_bytes = 24 << 10};
};
template <>
struct Choices<8> {
    using Low = Plans<ShortPlan<16, 64, 1>, ShortPlan<16, 32, 2>, ShortPlan<16, 32, 4>, ShortPlan<16, 16, 8>>;
    using Narrow = Plans<ShortPlan<16, 2, 64>, ShortPlan<16, 4, 32>, ShortPlan<16, 8, 16>>;
    using Large = WordPlan<8, 32, 32, 512, kColumns, Cache::normal, Cache::normal, 256, 4>;
    using Ragged = WordPlan<16, 16, 32, 512, kColumns, Cache::keep, Cache::normal, 0, 0, Cache::keep>;
    using Small = WordPlan<16, 16, 16, 128, kColumns, Cache::once, Cache::once>;
    using Shifted = ShiftPlan<8, 24, 64, 32, 384, Cache::normal, 3>;
    using ShiftedSmall = ShiftPlan<8, 32, 32, 32, 512, Cache::normal, 4>;
    using Tma = TmaPlan<2, 2, 256, kColumns, 5>;
    using Swap = WordPlan<16, 8, 8, 64, 1>;
    using SwapScalar = WordPlan<8, 32, 32, 256, 1>;
    static constexpr unsigned kSmallTiles = 10;
    static constexpr std::int64_t kSmallSide = 32;
    static constexpr unsigned kLargeTiles = 90;
    static constexpr unsigned kSmallShifted = 4;
    static constexpr ThinPlan kThin{.tall_most = 84,
                                    .wide_most = 135,
                                    .wide_most_words = 35,
                                    .tall_few_bytes = 16 << 10,
                                    .tall_bytes = 24 << 10,
                                    .tall_run_bytes = 400,
                                    .wide_bytes = 24 << 10};
};
template <>
struct Choices<16> {
    using Low = Plans<ShortPlan<16, 64, 2>, ShortPlan<16, 32, 4>, ShortPlan<16, 16, 8>>;
    using Narrow = Plans<ShortPlan<16, 2, 64>, ShortPlan<16, 4, 32>, ShortPlan<16, 8, 16>>;
    using Large = WordPlan<16, 16, 32, 512, kColumns, Cache::normal, Cache::normal, 256, 4>;
    using Ragged = WordPlan<16, 32, 32, 512, kColumns, Cache::keep, Cache::normal, 0, 0, Cache::keep>;
    using Small = WordPlan<16, 16, 16, 128, kColumns, Cache::once, Cache::once>;
    using Tma = TmaPlan<2, 4, 256, kColumns>;
    using Swap = WordPlan<16, 16, 16, 128, 1>;
    using SwapScalar = Swap;
    static constexpr unsigned kSmallTiles = 24;
    static constexpr std::int64_t kSmallSide = 24;
    static constexpr unsigned kLargeTiles = 48;
};

}  // namespace gpumat::transpose::gpu
