// transpose, CPU level `vectorized`: tiles transposed in vector registers, staged, and streamed to memory.
//
// Since `tiled`, four things, all of one idea, to move whole lines, each once and early:
//  - Registers are transposed by log2(16 / size) rounds of interleaving ("unpack"), which work in each
//    128-bit lane by itself. Lane l of register r is loaded from row l·16 / size + r: it then holds the next
//    16 bytes of the same output row as lane l − 1, and the register is stored whole. Taking lanes out of
//    registers would use the unit that interleaves.
//  - The tile goes through a small contiguous buffer. Its lines lie in all sets of the cache, whatever the
//    stride of the matrix, so tiles no longer evict themselves at large powers of two.
//  - The buffer's rows are written with streaming stores of whole lines, which do not read the output
//    first. Where rows of the output do not start on lines, what is left of a line stays in the buffer until
//    the tile below completes it; only the ends of a strip of tiles are ordinary stores.
//  - The tile below is fetched while this one is written, a few lines for every row.
//
// Traffic: every element read once and written once, nothing else, as in a copy. What limits it: memory, with
// reads and writes that take turns; for an input of two or three columns the loads.
// Constraints: none. Columns that fill no block are a narrower one, which reads into the row below. Rows that
// fill none, and those at the end of the matrix, are loaded a register a row, and stored lane by lane.
// AVX-512, AVX2 or neither is decided when the level is prepared.
//
// In place, a tile and its mirror image are both staged before either is written, while the next pair is
// fetched. There the lines are in the cache already, so ordinary stores write them.
//
// Source of the idea: the interleaving network is a perfect shuffle (H. Stone, 1971); staging a tile
// against conflict misses is the "copy optimization" of M. Lam, E. Rothberg and M. Wolf (1991).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/move.hpp"
#include "lib/core/parallel.hpp"

#define GPUMAT_INLINE __attribute__((always_inline)) inline

namespace gpumat::transpose::cpu {
namespace {

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kLowBytes = 128;          // a result whose rows are no longer is staged without gaps
constexpr std::int64_t kLongRunBytes = 1024;     // a run of the output where the input is at most a line wide
constexpr std::int64_t kNarrowTileBytes = 8192;  // runs of less, down to the usual, make a tile this large
constexpr std::int64_t kPieceBytes = 512;        // in which rows without gaps are fetched
constexpr std::int64_t kSwapBytes = 256;         // a side of a tile that is swapped with its mirror image
constexpr std::int64_t kStripBytes = 8192;       // of a row of the output, that one thread writes run by run
constexpr std::int64_t kStripsAThread = 4;       // at least, where the strips can be shorter

constexpr std::int64_t kDenseBytes = std::int64_t{32} << 10;  // of a result with short rows, staged at once
static_assert(kDenseBytes >= kLineBytes * kLowBytes, "a line of columns fits");
constexpr std::int64_t kBytesAtOnce = std::int64_t{1} << 20;      // that a thread takes at least
constexpr std::int64_t kStreamFromBytes = std::int64_t{1} << 20;  // a smaller result stays in the cache

/// The shape of a tile.
struct Tile {
    std::int64_t read_bytes;  ///< its part of one row of the input
    std::int64_t run_bytes;   ///< its part of one row of the output
};

/// The tile for elements of `size` bytes. With its buffer and the tile below it fits a small second-level
/// cache. A tile of 1- or 2-byte elements has many rows on both sides, and takes equally much of each. One of
/// wider elements has few, so it can take more of each: of those of the input, as their lines have to arrive,
/// while streaming stores wait for nothing.
constexpr Tile tile_for(std::int64_t size) {
    if (size <= 2) return {.read_bytes = 256, .run_bytes = 256};
    return {.read_bytes = size == 4 ? 1024 : 2048, .run_bytes = 128};
}

/// Bytes from row to row of the buffer of a tile: its part of a row of the output, and in the line before it
/// what the tile above left over, less than a line.
constexpr std::int64_t stride_for(std::int64_t run_bytes) {
    return kLineBytes + run_bytes;
}

/// The run of a tile that is `width` bytes wide: longer where the input has few columns. It is an even number
/// of lines, so that the rows of the buffer start in different sets of the cache.
constexpr std::int64_t run_bytes_for(std::int64_t size, std::int64_t width) {
    if (width <= kLineBytes) return kLongRunBytes;
    const std::int64_t rows = kNarrowTileBytes / width;
    const std::int64_t run_bytes = rows * size / (2 * kLineBytes) * (2 * kLineBytes);
    return std::clamp(run_bytes, tile_for(size).run_bytes, kLongRunBytes);
}

/// The bytes of the buffer of a tile of any width. Columns come in registers' lanes of 16 bytes.
constexpr std::int64_t stage_bytes_for(std::int64_t size) {
    const Tile tile = tile_for(size);
    std::int64_t most = 0;
    for (std::int64_t width = size; width <= tile.read_bytes; width += size)
        most = std::max(most, (width + 15) / 16 * 16 / size * stride_for(run_bytes_for(size, width)));
    return most;
}

/// Transposes rows × cols elements. Strides are in bytes. The rows of `out` are written in whole vectors:
/// what is past the end of one is garbage, until the next is written where out_stride is less. From the first
/// element to the last of `readable` rows, which may be fewer or more than `rows`, everything may be read.
using TransposeBlock = void (*)(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                std::int64_t readable, std::int64_t cols, std::byte* out,
                                std::int64_t out_stride);
/// Where a run of bytes lies in the row that it is a part of.
struct Part {
    bool first;
    bool last;
};
/// Writes a run of bytes to memory that nobody reads soon, in whole lines: the bytes after the last whole
/// line are kept for the next run of the row, in the line before `from`, except after the last run.
using Stream = void (*)(std::byte* from, std::byte* to, std::int64_t bytes, Part part);

struct Functions {
    TransposeBlock transpose;
    Stream stream;
};

template <class T>
void transpose_plain(const std::byte* in, std::int64_t in_stride, std::int64_t rows, std::int64_t,
                     std::int64_t cols, std::byte* out, std::int64_t out_stride) {
    for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
            std::memcpy(out + j * out_stride + i * static_cast<std::int64_t>(sizeof(T)),
                        in + i * in_stride + j * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
        }
    }
}

void stream_plain(std::byte* from, std::byte* to, std::int64_t bytes, Part) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

#ifdef __x86_64__

// Rows of a block that share few sets of the first-level cache push each other out between the pieces in
// which they are read: those of 1- and 2-byte elements, as they are many, and 16 of 4-byte elements where
// `share_sets` says so. The registers that such a block is turned from are brought together first, for all
// blocks in so many bytes of each row, so that a line that two of them share is read once.
constexpr int kTogetherBytes = 256;
constexpr std::int64_t kSetsBytes = 4096;  // addresses so far apart are in the same set

/// Lines in a set of the first-level cache, or at most 0 where the system does not tell.
long first_level_ways() {
#ifdef _SC_LEVEL1_DCACHE_ASSOC
    static const long kWays = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
    return kWays;
#else
    return 0;
#endif
}

/// Whether so many rows start within two lines of each other, modulo kSetsBytes, and a set is small: with 12
/// lines in one it costs more than it brings (measured).
bool share_sets(std::int64_t rows, std::int64_t in_stride) {
    constexpr long kFewWays = 8;
    const std::int64_t past = in_stride % kSetsBytes;
    return first_level_ways() > 0 && first_level_ways() <= kFewWays &&
           rows * std::min(past, kSetsBytes - past) <= 2 * kLineBytes;
}

/// The columns that fill no block are taken by blocks as well, in pieces of 16 bytes a row.
struct Rest {
    int pieces;         ///< a row; the last may reach into the rows below
    std::int64_t rows;  ///< that fill blocks and whose pieces end within what may be read
};

/// `cols` columns are left, and `whole_rows` rows fill blocks of `side` rows.
Rest rest_of(std::int64_t whole_rows, std::int64_t cols, std::int64_t readable, std::int64_t in_stride,
             std::int64_t size, std::int64_t side) {
    const std::int64_t pieces = (cols * size + 15) / 16;
    const std::int64_t rows_reached = (pieces * 16 - cols * size + in_stride - 1) / in_stride;
    const std::int64_t safe = std::clamp<std::int64_t>(readable - rows_reached, 0, whole_rows);
    return {.pieces = static_cast<int>(pieces), .rows = safe / side * side};
}

template <std::size_t kSize>
GPUMAT_AVX512 inline __m512i interleave_low(__m512i a, __m512i b) {
    if constexpr (kSize == 1) return _mm512_unpacklo_epi8(a, b);
    if constexpr (kSize == 2) return _mm512_unpacklo_epi16(a, b);
    if constexpr (kSize == 4) return _mm512_unpacklo_epi32(a, b);
    return _mm512_unpacklo_epi64(a, b);
}
template <std::size_t kSize>
GPUMAT_AVX512 inline __m512i interleave_high(__m512i a, __m512i b) {
    if constexpr (kSize == 1) return _mm512_unpackhi_epi8(a, b);
    if constexpr (kSize == 2) return _mm512_unpackhi_epi16(a, b);
    if constexpr (kSize == 4) return _mm512_unpackhi_epi32(a, b);
    return _mm512_unpackhi_epi64(a, b);
}
template <std::size_t kSize>
GPUMAT_AVX2 inline __m256i interleave_low(__m256i a, __m256i b) {
    if constexpr (kSize == 1) return _mm256_unpacklo_epi8(a, b);
    if constexpr (kSize == 2) return _mm256_unpacklo_epi16(a, b);
    if constexpr (kSize == 4) return _mm256_unpacklo_epi32(a, b);
    return _mm256_unpacklo_epi64(a, b);
}
template <std::size_t kSize>
GPUMAT_AVX2 inline __m256i interleave_high(__m256i a, __m256i b) {
    if constexpr (kSize == 1) return _mm256_unpackhi_epi8(a, b);
    if constexpr (kSize == 2) return _mm256_unpackhi_epi16(a, b);
    if constexpr (kSize == 4) return _mm256_unpackhi_epi32(a, b);
    return _mm256_unpackhi_epi64(a, b);
}

GPUMAT_INLINE __m128i load_lane(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
GPUMAT_AVX512 GPUMAT_INLINE __m512i load_avx512(const std::byte* from, int bytes) {
    if (bytes == 64) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi8((std::uint64_t{1} << bytes) - 1, from);
}
GPUMAT_AVX2 GPUMAT_INLINE __m256i load_avx2(const std::byte* from, int bytes) {
    if (bytes == 32) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    alignas(32) std::byte part[32] = {};
    std::memcpy(part, from, static_cast<std::size_t>(bytes));
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(part));
}

/// Transposes the 16 / size rows that each lane holds, one a register: element c of register r becomes
/// element r of register c.
template <class T>
GPUMAT_AVX512 GPUMAT_INLINE void interleave_avx512(__m512i (&x)[16 / sizeof(T)]) {
    constexpr int kRows = 16 / sizeof(T);
    // After each round register 2r holds the lower halves of registers r and r + kRows / 2, interleaved, and
    // register 2r + 1 the upper ones.
#pragma GCC unroll 4
    for (int width = kRows; width > 1; width /= 2) {
        __m512i y[kRows];
#pragma GCC unroll 8
        for (int r = 0; r < kRows / 2; ++r) {
            y[2 * r] = interleave_low<sizeof(T)>(x[r], x[r + kRows / 2]);
            y[2 * r + 1] = interleave_high<sizeof(T)>(x[r], x[r + kRows / 2]);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) x[r] = y[r];
    }
}

/// Lane kLane of each register is a row of the output.
template <int kLane, int kRows>
GPUMAT_AVX512 GPUMAT_INLINE void store_lanes_avx512(const __m512i (&x)[kRows], std::byte* out,
                                                    std::int64_t out_stride) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (kLane * kRows + r) * out_stride),
                         _mm512_extracti32x4_epi32(x[r], kLane));
    }
}
/// Transposes the 16 / size rows that each lane holds, one a register: element c of register r becomes
/// element r of register c.
template <class T>
GPUMAT_AVX2 GPUMAT_INLINE void interleave_avx2(__m256i (&x)[16 / sizeof(T)]) {
    constexpr int kRows = 16 / sizeof(T);
    // After each round register 2r holds the lower halves of registers r and r + kRows / 2, interleaved, and
    // register 2r + 1 the upper ones.
#pragma GCC unroll 4
    for (int width = kRows; width > 1; width /= 2) {
        __m256i y[kRows];
#pragma GCC unroll 8
        for (int r = 0; r < kRows / 2; ++r) {
            y[2 * r] = interleave_low<sizeof(T)>(x[r], x[r + kRows / 2]);
            y[2 * r + 1] = interleave_high<sizeof(T)>(x[r], x[r + kRows / 2]);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) x[r] = y[r];
    }
}

template <int kLane, int kRows>
GPUMAT_AVX2 GPUMAT_INLINE void store_lanes_avx2(const __m256i (&x)[kRows], std::byte* out,
                                                std::int64_t out_stride) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (kLane * kRows + r) * out_stride),
                         _mm256_extracti128_si256(x[r], kLane));
    }
}

/// 16 / size rows of 64 bytes become 64 / size rows of 16 bytes; fewer rows and columns where they say so.
template <class T>
GPUMAT_AVX512 GPUMAT_INLINE void transpose_registers_avx512(const std::byte* in, std::int64_t in_stride,
                                                            int rows, int cols, std::byte* out,
                                                            std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    constexpr int kCols = 64 / sizeof(T);
    __m512i x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        x[r] = r < rows
                   ? load_avx512(in + r * in_stride, cols == kCols ? 64 : cols * static_cast<int>(sizeof(T)))
                   : __m512i{};
    }
    interleave_avx512<T>(x);
    // In the order of the output's rows, so that each overwrites what the one before put past its end.
    store_lanes_avx512<0>(x, out, out_stride);
    if (cols > 1 * kRows) store_lanes_avx512<1>(x, out, out_stride);
    if (cols > 2 * kRows) store_lanes_avx512<2>(x, out, out_stride);
    if (cols > 3 * kRows) store_lanes_avx512<3>(x, out, out_stride);
}

/// 16 / size rows of 32 bytes become 32 / size rows of 16 bytes; fewer rows and columns where they say so.
template <class T>
GPUMAT_AVX2 GPUMAT_INLINE void transpose_registers_avx2(const std::byte* in, std::int64_t in_stride, int rows,
                                                        int cols, std::byte* out, std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    constexpr int kCols = 32 / sizeof(T);
    __m256i x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        x[r] = r < rows
                   ? load_avx2(in + r * in_stride, cols == kCols ? 32 : cols * static_cast<int>(sizeof(T)))
                   : __m256i{};
    }
    interleave_avx2<T>(x);
    // In the order of the output's rows, so that each overwrites what the one before put past its end.
    store_lanes_avx2<0>(x, out, out_stride);
    if (cols > 1 * kRows) store_lanes_avx2<1>(x, out, out_stride);
}

/// 16 bytes of each of four rows that are kRows apart, the first in the lowest lane.
template <int kRows>
GPUMAT_AVX512 GPUMAT_INLINE __m512i load_lanes_avx512(const std::byte* from, std::int64_t in_stride) {
    __m512i x = _mm512_castsi128_si512(load_lane(from));
    x = _mm512_mask_broadcast_i32x4(x, 0x00f0, load_lane(from + kRows * in_stride));
    x = _mm512_mask_broadcast_i32x4(x, 0x0f00, load_lane(from + 2 * kRows * in_stride));
    return _mm512_mask_broadcast_i32x4(x, 0xf000, load_lane(from + 3 * kRows * in_stride));
}

/// Transposes what `load_lanes_avx512` loaded from 16 / size rows in turn: a register becomes a row of `out`.
template <class T>
GPUMAT_AVX512 GPUMAT_INLINE void transpose_and_store_avx512(__m512i (&x)[16 / sizeof(T)], std::byte* out,
                                                            std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    interleave_avx512<T>(x);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) _mm512_storeu_si512(out + r * out_stride, x[r]);
}

/// 64 / size rows of 64 bytes become 64 / size rows of 64 bytes. A row is read in 4 pieces, or only the
/// first ones.
template <class T>
GPUMAT_AVX512 GPUMAT_INLINE void transpose_block_avx512(const std::byte* in, std::int64_t in_stride,
                                                        std::byte* out, std::int64_t out_stride,
                                                        int pieces = 4) {
    constexpr int kRows = 16 / sizeof(T);
    for (int piece = 0; piece < pieces; ++piece) {
        __m512i x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
            x[r] = load_lanes_avx512<kRows>(in + r * in_stride + piece * 16, in_stride);
        transpose_and_store_avx512<T>(x, out + piece * kRows * out_stride, out_stride);
    }
}

/// The same for kBlocks blocks side by side, whose rows are read from end to end, four at a time.
template <class T, int kBlocks>
GPUMAT_AVX512 GPUMAT_INLINE void transpose_together_avx512(const std::byte* in, std::int64_t in_stride,
                                                           std::byte* out, std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    constexpr int kPieces = 4 * kBlocks;
    alignas(64) std::byte together[kPieces * kRows * 64];
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int piece = 0; piece < kPieces; ++piece) {
            const std::byte* from = in + r * in_stride + piece * 16;
            _mm512_store_si512(together + (piece * kRows + r) * 64,
                               load_lanes_avx512<kRows>(from, in_stride));
        }
    }
    for (int piece = 0; piece < kPieces; ++piece) {
        __m512i x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) x[r] = _mm512_load_si512(together + (piece * kRows + r) * 64);
        transpose_and_store_avx512<T>(x, out + piece * kRows * out_stride, out_stride);
    }
}

/// Transposes what is no whole block; the rows of `out` are written as `TransposeBlock` says.
template <class T>
GPUMAT_AVX512 void transpose_edge_avx512(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                         std::int64_t cols, std::byte* out, std::int64_t out_stride) {
    constexpr int kSize = sizeof(T);
    constexpr int kRows = 16 / kSize;
    constexpr int kCols = 64 / kSize;
    for (std::int64_t i = (rows + kRows - 1) / kRows * kRows - kRows; i >= 0; i -= kRows) {
        for (std::int64_t j = 0; j < cols; j += kCols) {
            const std::byte* from = in + i * in_stride + j * kSize;
            std::byte* to = out + j * out_stride + i * kSize;
            if (rows - i >= kRows && cols - j >= kCols) {
                transpose_registers_avx512<T>(from, in_stride, kRows, kCols, to, out_stride);
            } else {
                transpose_registers_avx512<T>(
                    from, in_stride, static_cast<int>(std::min<std::int64_t>(kRows, rows - i)),
                    static_cast<int>(std::min<std::int64_t>(kCols, cols - j)), to, out_stride);
            }
        }
    }
}

/// 16 bytes of each of two rows that are kRows apart, the first in the lower lane.
template <int kRows>
GPUMAT_AVX2 GPUMAT_INLINE __m256i load_lanes_avx2(const std::byte* from, std::int64_t in_stride) {
    return _mm256_blend_epi32(_mm256_castsi128_si256(load_lane(from)),
                              _mm256_broadcastsi128_si256(load_lane(from + kRows * in_stride)), 0xf0);
}

/// Transposes what `load_lanes_avx2` loaded from 16 / size rows in turn: a register becomes a row of `out`.
template <class T>
GPUMAT_AVX2 GPUMAT_INLINE void transpose_and_store_avx2(__m256i (&x)[16 / sizeof(T)], std::byte* out,
                                                        std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    interleave_avx2<T>(x);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + r * out_stride), x[r]);
}

/// 32 / size rows of 32 bytes become 32 / size rows of 32 bytes. A row is read in 2 pieces, or only the
/// first.
template <class T>
GPUMAT_AVX2 GPUMAT_INLINE void transpose_block_avx2(const std::byte* in, std::int64_t in_stride,
                                                    std::byte* out, std::int64_t out_stride, int pieces = 2) {
    constexpr int kRows = 16 / sizeof(T);
    for (int piece = 0; piece < pieces; ++piece) {
        __m256i x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
            x[r] = load_lanes_avx2<kRows>(in + r * in_stride + piece * 16, in_stride);
        transpose_and_store_avx2<T>(x, out + piece * kRows * out_stride, out_stride);
    }
}

/// The same for kBlocks blocks side by side, whose rows are read from end to end, two at a time.
template <class T, int kBlocks>
GPUMAT_AVX2 GPUMAT_INLINE void transpose_together_avx2(const std::byte* in, std::int64_t in_stride,
                                                       std::byte* out, std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    constexpr int kPieces = 2 * kBlocks;
    alignas(32) std::byte together[kPieces * kRows * 32];
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int piece = 0; piece < kPieces; ++piece) {
            const std::byte* from = in + r * in_stride + piece * 16;
            _mm256_store_si256(reinterpret_cast<__m256i*>(together + (piece * kRows + r) * 32),
                               load_lanes_avx2<kRows>(from, in_stride));
        }
    }
    for (int piece = 0; piece < kPieces; ++piece) {
        __m256i x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
            const std::byte* from = together + (piece * kRows + r) * 32;
            x[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
        }
        transpose_and_store_avx2<T>(x, out + piece * kRows * out_stride, out_stride);
    }
}

/// Transposes what is no whole block; the rows of `out` are written as `TransposeBlock` says.
template <class T>
GPUMAT_AVX2 void transpose_edge_avx2(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                     std::int64_t cols, std::byte* out, std::int64_t out_stride) {
    constexpr int kSize = sizeof(T);
    constexpr int kRows = 16 / kSize;
    constexpr int kCols = 32 / kSize;
    for (std::int64_t i = (rows + kRows - 1) / kRows * kRows - kRows; i >= 0; i -= kRows) {
        for (std::int64_t j = 0; j < cols; j += kCols) {
            const std::byte* from = in + i * in_stride + j * kSize;
            std::byte* to = out + j * out_stride + i * kSize;
            if (rows - i >= kRows && cols - j >= kCols) {
                transpose_registers_avx2<T>(from, in_stride, kRows, kCols, to, out_stride);
            } else {
                transpose_registers_avx2<T>(
                    from, in_stride, static_cast<int>(std::min<std::int64_t>(kRows, rows - i)),
                    static_cast<int>(std::min<std::int64_t>(kCols, cols - j)), to, out_stride);
            }
        }
    }
}

template <class T>
GPUMAT_AVX512 void transpose_avx512(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                    std::int64_t readable, std::int64_t cols, std::byte* out,
                                    std::int64_t out_stride) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = 64 / kSize;
    const std::int64_t whole_rows = rows / kSide * kSide;
    const std::int64_t whole_cols = cols / kSide * kSide;
    // The last rows first: what they put past the ends of the output's rows is overwritten.
    transpose_edge_avx512<T>(in + whole_rows * in_stride, in_stride, rows - whole_rows, cols,
                             out + whole_rows * kSize, out_stride);
    for (std::int64_t i = whole_rows - kSide; i >= 0; i -= kSide) {
        const std::byte* from = in + i * in_stride;
        std::byte* to = out + i * kSize;
        std::int64_t j = 0;
        if constexpr (sizeof(T) <= 4) {
            const std::int64_t end = sizeof(T) <= 2 || share_sets(kSide, in_stride) ? whole_cols : 0;
            constexpr int kBlocks = kTogetherBytes / 64;
            for (; j + kBlocks * kSide <= end; j += kBlocks * kSide)
                transpose_together_avx512<T, kBlocks>(from + j * kSize, in_stride, to + j * out_stride,
                                                      out_stride);
            for (; j < end; j += kSide)
                transpose_together_avx512<T, 1>(from + j * kSize, in_stride, to + j * out_stride, out_stride);
        }
        for (; j < whole_cols; j += kSide)
            transpose_block_avx512<T>(from + j * kSize, in_stride, to + j * out_stride, out_stride);
    }
    if (whole_cols == cols) return;
    const Rest rest = rest_of(whole_rows, cols - whole_cols, readable, in_stride, kSize, kSide);
    const std::byte* from = in + whole_cols * kSize;
    std::byte* to = out + whole_cols * out_stride;
    transpose_edge_avx512<T>(from + rest.rows * in_stride, in_stride, whole_rows - rest.rows,
                             cols - whole_cols, to + rest.rows * kSize, out_stride);
    for (std::int64_t i = rest.rows - kSide; i >= 0; i -= kSide)
        transpose_block_avx512<T>(from + i * in_stride, in_stride, to + i * kSize, out_stride, rest.pieces);
}

template <class T>
GPUMAT_AVX2 void transpose_avx2(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                std::int64_t readable, std::int64_t cols, std::byte* out,
                                std::int64_t out_stride) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = 32 / kSize;
    const std::int64_t whole_rows = rows / kSide * kSide;
    const std::int64_t whole_cols = cols / kSide * kSide;
    // The last rows first: what they put past the ends of the output's rows is overwritten.
    transpose_edge_avx2<T>(in + whole_rows * in_stride, in_stride, rows - whole_rows, cols,
                           out + whole_rows * kSize, out_stride);
    for (std::int64_t i = whole_rows - kSide; i >= 0; i -= kSide) {
        const std::byte* from = in + i * in_stride;
        std::byte* to = out + i * kSize;
        std::int64_t j = 0;
        if constexpr (sizeof(T) <= 2) {
            constexpr int kBlocks = kTogetherBytes / 32;
            for (; j + kBlocks * kSide <= whole_cols; j += kBlocks * kSide)
                transpose_together_avx2<T, kBlocks>(from + j * kSize, in_stride, to + j * out_stride,
                                                    out_stride);
            for (; j < whole_cols; j += kSide)
                transpose_together_avx2<T, 1>(from + j * kSize, in_stride, to + j * out_stride, out_stride);
        }
        for (; j < whole_cols; j += kSide)
            transpose_block_avx2<T>(from + j * kSize, in_stride, to + j * out_stride, out_stride);
    }
    if (whole_cols == cols) return;
    const Rest rest = rest_of(whole_rows, cols - whole_cols, readable, in_stride, kSize, kSide);
    const std::byte* from = in + whole_cols * kSize;
    std::byte* to = out + whole_cols * out_stride;
    transpose_edge_avx2<T>(from + rest.rows * in_stride, in_stride, whole_rows - rest.rows, cols - whole_cols,
                           to + rest.rows * kSize, out_stride);
    for (std::int64_t i = rest.rows - kSide; i >= 0; i -= kSide)
        transpose_block_avx2<T>(from + i * in_stride, in_stride, to + i * kSize, out_stride, rest.pieces);
}

GPUMAT_AVX512 void stream_avx512(std::byte* from, std::byte* to, std::int64_t bytes, Part part) {
    // The line that `to` lies in begins with what was kept, unless the row does.
    const auto kept = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kLineBytes);
    std::int64_t done = -kept;
    if (kept != 0 && part.first) {
        done = std::min(bytes, kLineBytes - kept);
        std::memcpy(to, from, static_cast<std::size_t>(done));
    }
    for (; done + kLineBytes <= bytes; done += kLineBytes) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + done), _mm512_loadu_si512(from + done));
    }
    if (part.last) {
        std::memcpy(to + done, from + done, static_cast<std::size_t>(bytes - done));
    } else if (kept != 0) {
        std::memcpy(from - kLineBytes, from + bytes - kLineBytes, kLineBytes);
    }
}

GPUMAT_AVX2 void stream_avx2(std::byte* from, std::byte* to, std::int64_t bytes, Part part) {
    // The line that `to` lies in begins with what was kept, unless the row does.
    const auto kept = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kLineBytes);
    std::int64_t done = -kept;
    if (kept != 0 && part.first) {
        done = std::min(bytes, kLineBytes - kept);
        std::memcpy(to, from, static_cast<std::size_t>(done));
    }
    for (; done + kLineBytes <= bytes; done += kLineBytes) {
        const auto* line = reinterpret_cast<const __m256i*>(from + done);
        auto* target = reinterpret_cast<__m256i*>(to + done);
        _mm256_stream_si256(target, _mm256_loadu_si256(line));
        _mm256_stream_si256(target + 1, _mm256_loadu_si256(line + 1));
    }
    if (part.last) {
        std::memcpy(to + done, from + done, static_cast<std::size_t>(bytes - done));
    } else if (kept != 0) {
        std::memcpy(from - kLineBytes, from + bytes - kLineBytes, kLineBytes);
    }
}
#endif

/// The functions for elements of T.
template <class T>
Functions functions_for(VectorWidth width) {
#ifdef __x86_64__
    if (width == VectorWidth::avx512) return {transpose_avx512<T>, stream_avx512};
    if (width == VectorWidth::avx2) return {transpose_avx2<T>, stream_avx2};
#endif
    static_cast<void>(width);
    return {transpose_plain<T>, stream_plain};
}

/// Streaming stores are not ordered with what other threads do next; this orders them.
void finish_streaming() {
#ifdef __x86_64__
    _mm_sfence();
#endif
}

/// Rows of a tile that are to be fetched: `count` runs of `bytes` bytes, `stride` apart.
struct Rows {
    const std::byte* first;
    std::int64_t stride;
    std::int64_t bytes;
    std::int64_t count;
};

/// `count` rows of `bytes` bytes; without gaps between them they are one run, of which pieces will do.
Rows rows_of(const std::byte* first, std::int64_t stride, std::int64_t bytes, std::int64_t count) {
    if (stride != bytes) return {first, stride, bytes, count};
    return {first, kPieceBytes, kPieceBytes, (count * bytes + kPieceBytes - 1) / kPieceBytes};
}

/// Asks for `bytes` bytes, to the second-level cache: rows a power of two apart would not fit the first. In
/// long rows the last line is asked for twice: without that they are slower on some processors (README.md).
void prefetch(const std::byte* row, std::int64_t bytes) {
    constexpr std::int64_t kLongBytes = 512;
    const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) % kLineBytes);
    for (std::int64_t line = -past; line < bytes; line += kLineBytes) __builtin_prefetch(row + line, 0, 2);
    if (bytes > kLongBytes) __builtin_prefetch(row + bytes - 1, 0, 2);
}

/// Transposes rows × cols elements, at most a tile wide, tile by tile from top to bottom.
template <class T>
void transpose_strip(const std::byte* in, std::int64_t in_stride, std::int64_t rows, std::int64_t cols,
                     std::byte* out, std::int64_t out_stride, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    const std::int64_t run_bytes = run_bytes_for(kSize, cols * kSize);
    const std::int64_t tile_rows = run_bytes / kSize;
    const std::int64_t stride = stride_for(run_bytes);
    alignas(kLineBytes) std::byte stage[stage_bytes_for(kSize)];
    for (std::int64_t i = 0; i < rows; i += tile_rows) {
        const std::int64_t count = std::min(tile_rows, rows - i);
        const bool last = i + count == rows;
        use.transpose(in + i * in_stride, in_stride, count, rows - i, cols, stage + kLineBytes, stride);
        // The tile below is on its way while this one is written.
        const std::int64_t below_count = std::min(tile_rows, rows - i - count);
        const Rows below = rows_of(in + (i + count) * in_stride, in_stride, cols * kSize, below_count);
        std::int64_t row = 0;
        for (std::int64_t col = 0; col < cols; ++col) {
            for (; row * cols < (col + 1) * below.count; ++row)
                prefetch(below.first + row * below.stride, below.bytes);
            use.stream(stage + kLineBytes + col * stride, out + col * out_stride + i * kSize, count * kSize,
                       {.first = i == 0, .last = last});
        }
    }
}

/// Where rows of the output have at most kLowBytes, they lie without gaps in the buffer as well.
template <class T>
void transpose_low(const std::byte* in, std::byte* out, std::int64_t m, std::int64_t n, int threads,
                   const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    const std::int64_t cols_at_once = kDenseBytes / (m * kSize) / kLineBytes * kLineBytes;
    const std::int64_t grain = kBytesAtOnce / kDenseBytes * cols_at_once;
    parallel_for(n, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        alignas(kLineBytes)
            std::byte buffer[kDenseBytes + kLineBytes * kLowBytes];  // whole vectors of columns

        for (std::int64_t j = begin; j < end; j += cols_at_once) {
            const std::int64_t cols = std::min(cols_at_once, end - j);
            use.transpose(in + j * kSize, n * kSize, m, m, cols, buffer, m * kSize);
            use.stream(buffer, out + j * m * kSize, cols * m * kSize, {.first = true, .last = true});
        }
        finish_streaming();
    });
}

/// A single row or column keeps its order.
void copy(const std::byte* in, std::byte* out, std::int64_t bytes, int threads) {
    parallel_for(bytes, kBytesAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(out + begin, in + begin, static_cast<std::size_t>(end - begin));
    });
}

template <class T>
void transpose(const std::byte* in, std::byte* out, std::int64_t m, std::int64_t n, int threads,
               const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr Tile kTile = tile_for(kSize);
    static_assert(kTile.read_bytes % kLineBytes == 0, "tiles are made of whole lines");
    static_assert(kTile.run_bytes % (2 * kLineBytes) == 0 && kLongRunBytes % (2 * kLineBytes) == 0,
                  "rows of the buffer start in different sets");
    constexpr std::int64_t kCols = kTile.read_bytes / kSize;
    const std::int64_t across = (n + kCols - 1) / kCols;
    const auto strips_of = [&](std::int64_t strip_rows) {
        return across * ((m + strip_rows - 1) / strip_rows);
    };
    std::int64_t strip_rows = kStripBytes / kSize;
    while (strips_of(strip_rows) < kStripsAThread * threads && strip_rows > kTile.run_bytes / kSize)
        strip_rows /= 2;
    const std::int64_t strips = strips_of(strip_rows);
    const std::int64_t strip_bytes = std::min(m, strip_rows) * std::min(n, kCols) * kSize;
    parallel_for(strips, kBytesAtOnce / strip_bytes, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t strip = begin; strip < end; ++strip) {
            const std::int64_t i = strip / across * strip_rows;
            const std::int64_t j = strip % across * kCols;
            transpose_strip<T>(in + (i * n + j) * kSize, n * kSize, std::min(strip_rows, m - i),
                               std::min(kCols, n - j), out + (j * m + i) * kSize, m * kSize, use);
        }
        finish_streaming();
    });
}

template <class T>
void transpose_in_place(std::byte* matrix, std::int64_t n, int threads, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = kSwapBytes / kSize;
    constexpr std::int64_t kStride = stride_for(kSwapBytes);
    const std::int64_t across = (n + kSide - 1) / kSide;
    parallel_for(across * across, kBytesAtOnce / (kSwapBytes * kSide), threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     alignas(kLineBytes) std::byte upper[kSide * kStride];
                     alignas(kLineBytes) std::byte lower[kSide * kStride];
                     for (std::int64_t tile = begin; tile < end; ++tile) {
                         const std::int64_t i = tile / across * kSide;
                         const std::int64_t j = tile % across * kSide;
                         if (j < i) continue;  // swapped with its mirror image
                         const std::int64_t rows = std::min(kSide, n - i);
                         const std::int64_t cols = std::min(kSide, n - j);
                         std::byte* above = matrix + (i * n + j) * kSize;
                         std::byte* below = matrix + (j * n + i) * kSize;
                         // Nothing but these elements may be read: other threads write.
                         use.transpose(above, n * kSize, rows, 0, cols, upper, kStride);
                         use.transpose(below, n * kSize, cols, 0, rows, lower, kStride);
                         // The next pair is on its way while this one is written.
                         const std::int64_t next = std::clamp<std::int64_t>(n - j - cols, 0, kSide);
                         for (std::int64_t col = 0; col < cols; ++col) {
                             if (col < next) prefetch(below + (cols + col) * n * kSize, rows * kSize);
                             std::memcpy(below + col * n * kSize, upper + col * kStride,
                                         static_cast<std::size_t>(rows * kSize));
                         }
                         for (std::int64_t row = 0; row < rows; ++row) {
                             if (next > 0) prefetch(above + row * n * kSize + cols * kSize, next * kSize);
                             std::memcpy(above + row * n * kSize, lower + row * kStride,
                                         static_cast<std::size_t>(cols * kSize));
                         }
                     }
                 });
}

template <class T>
void run(const Problem& p, const Operands& operands, int threads, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    const auto* in = static_cast<const std::byte*>(operands.a);
    auto* out = static_cast<std::byte*>(operands.c);
    if (p.m == 0 || p.n == 0) return;
    if (p.in_place) {
        transpose_in_place<T>(out, p.n, threads, use);
    } else if (p.m == 1 || p.n == 1) {
        copy(in, out, p.m * p.n * kSize, threads);
    } else if (p.m * kSize <= kLowBytes) {
        transpose_low<T>(in, out, p.m, p.n, threads, use);
    } else {
        transpose<T>(in, out, p.m, p.n, threads, use);
    }
}

}  // namespace

Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) -> Launch {
        const VectorWidth width = vector_width(problem);
        Functions use = functions_for<T>(width);
        if (problem.m * problem.n * static_cast<std::int64_t>(sizeof(T)) < kStreamFromBytes) {
            use.stream = stream_plain;
        }
        return {.level = "vectorized",
                .run = [problem, operands, threads = device.threads,
                        use] { run<T>(problem, operands, threads, use); },
                .details = {{"vectors", std::string(name_of(width))}}};
    });
}

}  // namespace gpumat::transpose::cpu
