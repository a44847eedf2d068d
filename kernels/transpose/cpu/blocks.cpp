#include "kernels/transpose/cpu/blocks.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector.hpp"
#include "kernels/transpose/cpu/streaming.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::cpu {
namespace {

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

// ---- Registers. What follows is compiled for each width, of kBytes ----

template <int kBytes>
using Register = Vector<std::uint64_t, kBytes / 8>;

/// The lower or upper halves of each lane of a and b, element by element in turns.
template <bool kUpper, class V, std::size_t... kTo>
GPUMAT_INLINE void interleave(const V& a, const V& b, V& to, std::index_sequence<kTo...>) {
    constexpr std::size_t kAll = sizeof...(kTo);
    constexpr std::size_t kLane = kAll * 16 / sizeof(V);
    to = __builtin_shufflevector(
        a, b, (kTo / kLane * kLane + (kUpper ? kLane / 2 : 0) + kTo % kLane / 2 + kTo % 2 * kAll)...);
}

/// Transposes the 16 / size rows that each lane holds, one a register: element c of register r becomes
/// element r of register c.
template <class T, int kBytes>
GPUMAT_INLINE void transpose_lanes(Register<kBytes> (&x)[16 / sizeof(T)]) {
    if constexpr (sizeof(T) < 16) {
        constexpr int kRows = 16 / sizeof(T);
        constexpr int kElements = kBytes / sizeof(T);
        constexpr auto kAll = std::make_index_sequence<kElements>();
        using V = Vector<T, kElements>;
        // After each round register 2r holds the lower halves of registers r and r + kRows / 2, interleaved,
        // and register 2r + 1 the upper ones.
#pragma GCC unroll 4
        for (int width = kRows; width > 1; width /= 2) {
            V y[kRows];
#pragma GCC unroll 8
            for (int r = 0; r < kRows / 2; ++r) {
                interleave<false>((V)x[r], (V)x[r + kRows / 2], y[2 * r], kAll);
                interleave<true>((V)x[r], (V)x[r + kRows / 2], y[2 * r + 1], kAll);
            }
#pragma GCC unroll 16
            for (int r = 0; r < kRows; ++r) x[r] = (Register<kBytes>)y[r];
        }
    }
}

/// Loads 16 bytes of each of kBytes / 16 rows, the first into the lowest lane. The compiler would make this
/// of insertions, which take the unit that interleaves.
GPUMAT_INLINE void load_lanes(Register<16>& x, const std::byte* from, std::int64_t) {
    std::memcpy(&x, from, sizeof x);
}

/// Loads the first `bytes` bytes of a register, and zeros.
template <class Register>
GPUMAT_INLINE void load_part(Register& x, const std::byte* from, int bytes) {
    Register part = {};
    std::memcpy(&part, from, static_cast<std::size_t>(bytes));
    x = part;
}

#ifdef __x86_64__
GPUMAT_INLINE __m128i load_lane(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
GPUMAT_AVX2 inline void load_lanes(Register<32>& x, const std::byte* from, std::int64_t stride) {
    x = (Register<32>)_mm256_blend_epi32(_mm256_castsi128_si256(load_lane(from)),
                                         _mm256_broadcastsi128_si256(load_lane(from + stride)), 0xf0);
}
GPUMAT_AVX512 inline void load_lanes(Register<64>& x, const std::byte* from, std::int64_t stride) {
    __m512i lanes = _mm512_castsi128_si512(load_lane(from));
    lanes = _mm512_mask_broadcast_i32x4(lanes, 0x00f0, load_lane(from + stride));
    lanes = _mm512_mask_broadcast_i32x4(lanes, 0x0f00, load_lane(from + 2 * stride));
    x = (Register<64>)_mm512_mask_broadcast_i32x4(lanes, 0xf000, load_lane(from + 3 * stride));
}
GPUMAT_AVX512 inline void load_part(Register<64>& x, const std::byte* from, int bytes) {
    x = (Register<64>)_mm512_maskz_loadu_epi8((std::uint64_t{1} << bytes) - 1, from);
}
#endif

/// Lane kLane of each register is a row of the output.
template <int kLane, int kBytes, int kRows>
GPUMAT_INLINE void store_lanes(const Register<kBytes> (&x)[kRows], std::byte* out, std::int64_t out_stride) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        const Register<16> lane = {x[r][2 * kLane], x[r][2 * kLane + 1]};
        std::memcpy(out + (kLane * kRows + r) * out_stride, &lane, sizeof lane);
    }
}

/// 16 / size rows of kBytes become kBytes / size rows of 16 bytes; fewer rows and columns where they say so.
template <class T, int kBytes>
GPUMAT_INLINE void transpose_registers(const std::byte* in, std::int64_t in_stride, int rows, int cols,
                                       std::byte* out, std::int64_t out_stride) {
    constexpr int kSize = sizeof(T);
    constexpr int kRows = 16 / kSize;
    constexpr int kCols = kBytes / kSize;
    Register<kBytes> x[kRows] = {};
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        if (r >= rows) break;
        const std::byte* row = in + r * in_stride;
        if (cols == kCols) {
            std::memcpy(&x[r], row, kBytes);
        } else {
            load_part(x[r], row, cols * kSize);
        }
    }
    transpose_lanes<T, kBytes>(x);
    // In the order of the output's rows, so that each overwrites what the one before put past its end.
    store_lanes<0, kBytes>(x, out, out_stride);
    if constexpr (kBytes >= 32) {
        if (cols > 1 * kRows) store_lanes<1, kBytes>(x, out, out_stride);
    }
    if constexpr (kBytes >= 64) {
        if (cols > 2 * kRows) store_lanes<2, kBytes>(x, out, out_stride);
        if (cols > 3 * kRows) store_lanes<3, kBytes>(x, out, out_stride);
    }
}

/// Transposes what `load_lanes` loaded from 16 / size rows in turn: a register becomes a row of `out`.
template <class T, int kBytes>
GPUMAT_INLINE void transpose_and_store(Register<kBytes> (&x)[16 / sizeof(T)], std::byte* out,
                                       std::int64_t out_stride) {
    transpose_lanes<T, kBytes>(x);
#pragma GCC unroll 16
    for (int r = 0; r < static_cast<int>(16 / sizeof(T)); ++r)
        std::memcpy(out + r * out_stride, &x[r], kBytes);
}

// ---- Blocks, and what is no whole one ----

/// kBytes / size rows of kBytes become as many. A row is read in pieces of 16 bytes, all or only the first
/// ones.
template <class T, int kBytes>
GPUMAT_INLINE void transpose_block(const std::byte* in, std::int64_t in_stride, std::byte* out,
                                   std::int64_t out_stride, Pending& pending, int pieces = kBytes / 16) {
    constexpr int kRows = 16 / sizeof(T);
    for (int piece = 0; piece < pieces; ++piece) {
        Register<kBytes> x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) load_lanes(x[r], in + r * in_stride + piece * 16, kRows * in_stride);
        transpose_and_store<T, kBytes>(x, out + piece * kRows * out_stride, out_stride);
    }
    pending.advance(pieces * kRows * kBytes);
}

/// The same for kBlocks blocks side by side, whose rows are read from end to end, some at a time.
template <class T, int kBytes, int kBlocks>
GPUMAT_INLINE void transpose_together(const std::byte* in, std::int64_t in_stride, std::byte* out,
                                      std::int64_t out_stride, Pending& pending) {
    constexpr int kRows = 16 / sizeof(T);
    constexpr int kPieces = kBytes / 16 * kBlocks;
    Register<kBytes> together[kPieces][kRows];
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int piece = 0; piece < kPieces; ++piece)
            load_lanes(together[piece][r], in + r * in_stride + piece * 16, kRows * in_stride);
    }
    for (int piece = 0; piece < kPieces; ++piece) {
        Register<kBytes> x[kRows];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) x[r] = together[piece][r];
        transpose_and_store<T, kBytes>(x, out + piece * kRows * out_stride, out_stride);
        pending.advance(kRows * kBytes);
    }
}

/// Transposes what is no whole block; the rows of `out` are written as `TransposeRectangle` says.
template <class T, int kBytes>
GPUMAT_INLINE void transpose_edge(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                  std::int64_t cols, std::byte* out, std::int64_t out_stride) {
    constexpr int kSize = sizeof(T);
    constexpr int kRows = 16 / kSize;
    constexpr int kCols = kBytes / kSize;
    for (std::int64_t i = (rows + kRows - 1) / kRows * kRows - kRows; i >= 0; i -= kRows) {
        for (std::int64_t j = 0; j < cols; j += kCols) {
            const std::byte* from = in + i * in_stride + j * kSize;
            std::byte* to = out + j * out_stride + i * kSize;
            if (rows - i >= kRows && cols - j >= kCols) {
                transpose_registers<T, kBytes>(from, in_stride, kRows, kCols, to, out_stride);
            } else {
                transpose_registers<T, kBytes>(
                    from, in_stride, static_cast<int>(std::min<std::int64_t>(kRows, rows - i)),
                    static_cast<int>(std::min<std::int64_t>(kCols, cols - j)), to, out_stride);
            }
        }
    }
}

template <class T, int kBytes>
GPUMAT_INLINE void transpose(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                             std::int64_t readable, std::int64_t cols, std::byte* out,
                             std::int64_t out_stride, Pending& pending) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = kBytes / kSize;
    const std::int64_t whole_rows = rows / kSide * kSide;
    const std::int64_t whole_cols = cols / kSide * kSide;
    // The last rows first: what they put past the ends of the output's rows is overwritten.
    transpose_edge<T, kBytes>(in + whole_rows * in_stride, in_stride, rows - whole_rows, cols,
                              out + whole_rows * kSize, out_stride);
    for (std::int64_t i = 0; i < whole_rows; i += kSide) {
        const std::byte* from = in + i * in_stride;
        std::byte* to = out + i * kSize;
        std::int64_t j = 0;
        if constexpr (kSize <= 2 || (kSize == 4 && kSide == 16)) {
            const std::int64_t end = kSize <= 2 || share_sets(kSide, in_stride) ? whole_cols : 0;
            constexpr int kBlocks = kTogetherBytes<T> / kBytes;
            for (; j + kBlocks * kSide <= end; j += kBlocks * kSide)
                transpose_together<T, kBytes, kBlocks>(from + j * kSize, in_stride, to + j * out_stride,
                                                       out_stride, pending);
            for (; j < end; j += kSide)
                transpose_together<T, kBytes, 1>(from + j * kSize, in_stride, to + j * out_stride, out_stride,
                                                 pending);
        }
        for (; j < whole_cols; j += kSide)
            transpose_block<T, kBytes>(from + j * kSize, in_stride, to + j * out_stride, out_stride, pending);
    }
    if (whole_cols == cols) return;
    const Rest rest = rest_of(whole_rows, cols - whole_cols, readable, in_stride, kSize, kSide);
    const std::byte* from = in + whole_cols * kSize;
    std::byte* to = out + whole_cols * out_stride;
    transpose_edge<T, kBytes>(from + rest.rows * in_stride, in_stride, whole_rows - rest.rows,
                              cols - whole_cols, to + rest.rows * kSize, out_stride);
    for (std::int64_t i = 0; i < rest.rows; i += kSide)
        transpose_block<T, kBytes>(from + i * in_stride, in_stride, to + i * kSize, out_stride, pending,
                                   rest.pieces);
}

/// Element by element: what registers of 16 bytes hold of wide ones is too few to gain by (measured).
template <class T>
void transpose_elements(const std::byte* in, std::int64_t in_stride, std::int64_t rows, std::int64_t,
                        std::int64_t cols, std::byte* out, std::int64_t out_stride, Pending& pending) {
    constexpr std::int64_t kSize = sizeof(T);
    for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t i = 0; i < rows; ++i)
            std::memcpy(out + j * out_stride + i * kSize, in + i * in_stride + j * kSize, sizeof(T));
        pending.advance(rows * kSize);
    }
}

// `transpose` in the instructions of each width.

#ifdef __x86_64__
template <class T>
GPUMAT_AVX2 void transpose_avx2(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                std::int64_t readable, std::int64_t cols, std::byte* out,
                                std::int64_t out_stride, Pending& pending) {
    transpose<T, 32>(in, in_stride, rows, readable, cols, out, out_stride, pending);
}
template <class T>
GPUMAT_AVX512 void transpose_avx512(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                    std::int64_t readable, std::int64_t cols, std::byte* out,
                                    std::int64_t out_stride, Pending& pending) {
    transpose<T, 64>(in, in_stride, rows, readable, cols, out, out_stride, pending);
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
    if constexpr (sizeof(T) <= 4) return transpose<T, 16>;
    return transpose_elements<T>;
}

template TransposeRectangle transpose_rectangle<std::uint8_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<std::uint16_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<std::uint32_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<std::uint64_t>(VectorWidth);
template TransposeRectangle transpose_rectangle<Bytes16>(VectorWidth);

}  // namespace gpumat::transpose::cpu
