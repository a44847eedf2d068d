#include "kernels/transpose/cpu/blocks.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/intrinsics.hpp"
#include "kernels/transpose/cpu/streaming.hpp"
#include "kernels/transpose/move.hpp"

#define GPUMAT_INLINE __attribute__((always_inline)) inline

namespace gpumat::transpose::cpu {
namespace {

template <class T>
void transpose_plain(const std::byte* in, std::int64_t in_stride, std::int64_t rows, std::int64_t,
                     std::int64_t cols, std::byte* out, std::int64_t out_stride, Pending& pending) {
    for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
            std::memcpy(out + j * out_stride + i * static_cast<std::int64_t>(sizeof(T)),
                        in + i * in_stride + j * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
        }
        pending.advance(rows * static_cast<std::int64_t>(sizeof(T)));
    }
}

#ifdef __x86_64__

// Rows of a block that share few sets of the first-level cache push each other out between the pieces in
// which they are read: those of 1- and 2-byte elements, as they are many, and 16 of 4-byte elements where
// `share_sets` says so. The registers that such a block is transposed from are brought together first, for
// all blocks in so many bytes of each row, so that a line that two of them share is read once.
template <class T>
constexpr int kTogetherBytes = sizeof(T) <= 2 ? 128 : 256;
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
                                                        Pending& pending, int pieces = 4) {
    constexpr int kRows = 16 / sizeof(T);
    for (int piece = 0; piece < pieces; ++piece) {
        __m512i x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
            x[r] = load_lanes_avx512<kRows>(in + r * in_stride + piece * 16, in_stride);
        transpose_and_store_avx512<T>(x, out + piece * kRows * out_stride, out_stride);
    }
    pending.advance(pieces * kRows * 64);
}

/// The same for kBlocks blocks side by side, whose rows are read from end to end, four at a time.
template <class T, int kBlocks>
GPUMAT_AVX512 GPUMAT_INLINE void transpose_together_avx512(const std::byte* in, std::int64_t in_stride,
                                                           std::byte* out, std::int64_t out_stride,
                                                           Pending& pending) {
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
        pending.advance(kRows * 64);
    }
}

/// Transposes what is no whole block; the rows of `out` are written as `TransposeRectangle` says.
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
                                                    std::byte* out, std::int64_t out_stride, Pending& pending,
                                                    int pieces = 2) {
    constexpr int kRows = 16 / sizeof(T);
    for (int piece = 0; piece < pieces; ++piece) {
        __m256i x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
            x[r] = load_lanes_avx2<kRows>(in + r * in_stride + piece * 16, in_stride);
        transpose_and_store_avx2<T>(x, out + piece * kRows * out_stride, out_stride);
    }
    pending.advance(pieces * kRows * 32);
}

/// The same for kBlocks blocks side by side, whose rows are read from end to end, two at a time.
template <class T, int kBlocks>
GPUMAT_AVX2 GPUMAT_INLINE void transpose_together_avx2(const std::byte* in, std::int64_t in_stride,
                                                       std::byte* out, std::int64_t out_stride,
                                                       Pending& pending) {
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
        pending.advance(kRows * 32);
    }
}

/// Transposes what is no whole block; the rows of `out` are written as `TransposeRectangle` says.
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
                                    std::int64_t out_stride, Pending& pending) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = 64 / kSize;
    const std::int64_t whole_rows = rows / kSide * kSide;
    const std::int64_t whole_cols = cols / kSide * kSide;
    // The last rows first: what they put past the ends of the output's rows is overwritten.
    transpose_edge_avx512<T>(in + whole_rows * in_stride, in_stride, rows - whole_rows, cols,
                             out + whole_rows * kSize, out_stride);
    for (std::int64_t i = 0; i < whole_rows; i += kSide) {
        const std::byte* from = in + i * in_stride;
        std::byte* to = out + i * kSize;
        std::int64_t j = 0;
        if constexpr (sizeof(T) <= 4) {
            const std::int64_t end = sizeof(T) <= 2 || share_sets(kSide, in_stride) ? whole_cols : 0;
            constexpr int kBlocks = kTogetherBytes<T> / 64;
            for (; j + kBlocks * kSide <= end; j += kBlocks * kSide)
                transpose_together_avx512<T, kBlocks>(from + j * kSize, in_stride, to + j * out_stride,
                                                      out_stride, pending);
            for (; j < end; j += kSide)
                transpose_together_avx512<T, 1>(from + j * kSize, in_stride, to + j * out_stride, out_stride,
                                                pending);
        }
        for (; j < whole_cols; j += kSide)
            transpose_block_avx512<T>(from + j * kSize, in_stride, to + j * out_stride, out_stride, pending);
    }
    if (whole_cols == cols) return;
    const Rest rest = rest_of(whole_rows, cols - whole_cols, readable, in_stride, kSize, kSide);
    const std::byte* from = in + whole_cols * kSize;
    std::byte* to = out + whole_cols * out_stride;
    transpose_edge_avx512<T>(from + rest.rows * in_stride, in_stride, whole_rows - rest.rows,
                             cols - whole_cols, to + rest.rows * kSize, out_stride);
    for (std::int64_t i = 0; i < rest.rows; i += kSide)
        transpose_block_avx512<T>(from + i * in_stride, in_stride, to + i * kSize, out_stride, pending,
                                  rest.pieces);
}

template <class T>
GPUMAT_AVX2 void transpose_avx2(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                std::int64_t readable, std::int64_t cols, std::byte* out,
                                std::int64_t out_stride, Pending& pending) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = 32 / kSize;
    const std::int64_t whole_rows = rows / kSide * kSide;
    const std::int64_t whole_cols = cols / kSide * kSide;
    // The last rows first: what they put past the ends of the output's rows is overwritten.
    transpose_edge_avx2<T>(in + whole_rows * in_stride, in_stride, rows - whole_rows, cols,
                           out + whole_rows * kSize, out_stride);
    for (std::int64_t i = 0; i < whole_rows; i += kSide) {
        const std::byte* from = in + i * in_stride;
        std::byte* to = out + i * kSize;
        std::int64_t j = 0;
        if constexpr (sizeof(T) <= 2) {
            constexpr int kBlocks = kTogetherBytes<T> / 32;
            for (; j + kBlocks * kSide <= whole_cols; j += kBlocks * kSide)
                transpose_together_avx2<T, kBlocks>(from + j * kSize, in_stride, to + j * out_stride,
                                                    out_stride, pending);
            for (; j < whole_cols; j += kSide)
                transpose_together_avx2<T, 1>(from + j * kSize, in_stride, to + j * out_stride, out_stride,
                                              pending);
        }
        for (; j < whole_cols; j += kSide)
            transpose_block_avx2<T>(from + j * kSize, in_stride, to + j * out_stride, out_stride, pending);
    }
    if (whole_cols == cols) return;
    const Rest rest = rest_of(whole_rows, cols - whole_cols, readable, in_stride, kSize, kSide);
    const std::byte* from = in + whole_cols * kSize;
    std::byte* to = out + whole_cols * out_stride;
    transpose_edge_avx2<T>(from + rest.rows * in_stride, in_stride, whole_rows - rest.rows, cols - whole_cols,
                           to + rest.rows * kSize, out_stride);
    for (std::int64_t i = 0; i < rest.rows; i += kSide)
        transpose_block_avx2<T>(from + i * in_stride, in_stride, to + i * kSize, out_stride, pending,
                                rest.pieces);
}

#endif

}  // namespace

template <class T>
TransposeRectangle transpose_rectangle(VectorWidth width) {
#ifdef __x86_64__
    if (width == VectorWidth::avx512) return transpose_avx512<T>;
    if (width == VectorWidth::avx2) return transpose_avx2<T>;
#endif
    static_cast<void>(width);
    return transpose_plain<T>;
}

template TransposeRectangle transpose_rectangle<std::uint8_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<std::uint16_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<std::uint32_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<std::uint64_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<Bytes16>(VectorWidth);

}  // namespace gpumat::transpose::cpu
