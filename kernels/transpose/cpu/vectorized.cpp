// transpose, CPU level `vectorized`: tiles transposed in vector registers, staged, and streamed to memory.
//
// Since `tiled`, three things, all of one idea, to move whole lines and nothing but whole lines:
//  - A group of 16 / size rows is loaded a register a row and transposed by log2(16 / size) rounds of
//    interleaving ("unpack"), which leaves 16 bytes of an output row in every 128-bit lane.
//  - The tile goes through a small contiguous buffer. Its lines lie in all sets of the cache, whatever the
//    stride of the matrix, so tiles no longer evict themselves at large powers of two.
//  - The buffer's rows are written with streaming stores of whole lines, which do not read the output
//    first. Only the partial lines at the ends of a run are ordinary stores.
//
// Traffic: every element read once and written once, nothing else, as in a copy. What limits it: memory.
// Constraints: none; edges that do not fill a register go through the buffer element by element. AVX-512,
// AVX2 or neither is decided when the level is prepared.
//
// In place, a tile and its mirror image are both staged before either is written. There the lines are in
// the cache already, so ordinary stores write them.
//
// Source of the idea: the interleaving network is a perfect shuffle (H. Stone, 1971); staging a tile
// against conflict misses is the "copy optimization" of M. Lam, E. Rothberg and M. Wolf (1991).
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/move.hpp"
#include "lib/core/parallel.hpp"

namespace gpumat::transpose::cpu {
namespace {

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kRunBytes = 256;                   // a tile's part of one row of the output
constexpr std::int64_t kReadBytes = 128;                  // a tile's part of one row of the input
constexpr std::int64_t kStride = kRunBytes + kLineBytes;  // of the buffer: rows start in different sets
static_assert(kRunBytes % kLineBytes == 0 && kReadBytes % kLineBytes == 0, "tiles are made of whole lines");

// Tiles that a thread takes at once, and the size under which a result stays in the cache.
constexpr std::int64_t kTilesAtOnce = 64;
constexpr std::int64_t kStreamFromBytes = std::int64_t{1} << 20;

/// A transposed tile; row j holds a tile's part of a row of the output. One byte an element needs most rows.
template <std::int64_t kRows>
struct alignas(kLineBytes) Stage {
    std::array<std::byte, static_cast<std::size_t>(kRows* kStride)> bytes;

    std::byte* row(std::int64_t j) { return bytes.data() + j * kStride; }
};

/// Transposes rows × cols elements. Strides are in bytes.
using TransposeBlock = void (*)(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                std::int64_t cols, std::byte* out, std::int64_t out_stride);
/// Copies a run of bytes to memory that nobody reads soon.
using Stream = void (*)(const std::byte* from, std::byte* to, std::int64_t bytes);

struct Functions {
    TransposeBlock transpose;
    Stream stream;
};

template <class T>
void transpose_plain(const std::byte* in, std::int64_t in_stride, std::int64_t rows, std::int64_t cols,
                     std::byte* out, std::int64_t out_stride) {
    for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
            std::memcpy(out + j * out_stride + i * static_cast<std::int64_t>(sizeof(T)),
                        in + i * in_stride + j * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
        }
    }
}

void stream_plain(const std::byte* from, std::byte* to, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

#ifdef __x86_64__

/// Bytes from `to` to the next line, at most `bytes`.
std::int64_t bytes_to_line(const std::byte* to, std::int64_t bytes) {
    const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kLineBytes);
    return std::min(bytes, past == 0 ? 0 : kLineBytes - past);
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

/// 16 / size rows of 64 bytes become 64 / size rows of 16 bytes.
template <class T>
GPUMAT_AVX512 inline void transpose_registers_avx512(const std::byte* in, std::int64_t in_stride,
                                                     std::byte* out, std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    __m512i x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = _mm512_loadu_si512(in + r * in_stride);
        // After each round register 2r holds the lower halves of lanes r and r + kRows / 2, interleaved, and
        // register 2r + 1 the upper ones; after the last, lane l of register r is output row l·kRows + r.
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
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        auto* row = out + r * out_stride;
        const std::int64_t lane = kRows * out_stride;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row), _mm512_castsi512_si128(x[r]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row + lane), _mm512_extracti32x4_epi32(x[r], 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 2 * lane), _mm512_extracti32x4_epi32(x[r], 2));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 3 * lane), _mm512_extracti32x4_epi32(x[r], 3));
    }
}

/// 16 / size rows of 32 bytes become 32 / size rows of 16 bytes.
template <class T>
GPUMAT_AVX2 inline void transpose_registers_avx2(const std::byte* in, std::int64_t in_stride, std::byte* out,
                                                 std::int64_t out_stride) {
    constexpr int kRows = 16 / sizeof(T);
    __m256i x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        x[r] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + r * in_stride));
    }
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
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
        auto* row = out + r * out_stride;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row), _mm256_castsi256_si128(x[r]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(row + kRows * out_stride),
                         _mm256_extracti128_si256(x[r], 1));
    }
}

template <class T>
GPUMAT_AVX512 void transpose_avx512(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                    std::int64_t cols, std::byte* out, std::int64_t out_stride) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kRows = 16 / kSize;
    constexpr std::int64_t kCols = 64 / kSize;
    const std::int64_t whole_rows = rows / kRows * kRows;
    const std::int64_t whole_cols = cols / kCols * kCols;
    for (std::int64_t i = 0; i < whole_rows; i += kRows) {
        for (std::int64_t j = 0; j < whole_cols; j += kCols) {
            transpose_registers_avx512<T>(in + i * in_stride + j * kSize, in_stride,
                                          out + j * out_stride + i * kSize, out_stride);
        }
    }
    transpose_plain<T>(in + whole_cols * kSize, in_stride, whole_rows, cols - whole_cols,
                       out + whole_cols * out_stride, out_stride);
    transpose_plain<T>(in + whole_rows * in_stride, in_stride, rows - whole_rows, cols,
                       out + whole_rows * kSize, out_stride);
}

template <class T>
GPUMAT_AVX2 void transpose_avx2(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                std::int64_t cols, std::byte* out, std::int64_t out_stride) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kRows = 16 / kSize;
    constexpr std::int64_t kCols = 32 / kSize;
    const std::int64_t whole_rows = rows / kRows * kRows;
    const std::int64_t whole_cols = cols / kCols * kCols;
    for (std::int64_t i = 0; i < whole_rows; i += kRows) {
        for (std::int64_t j = 0; j < whole_cols; j += kCols) {
            transpose_registers_avx2<T>(in + i * in_stride + j * kSize, in_stride,
                                        out + j * out_stride + i * kSize, out_stride);
        }
    }
    transpose_plain<T>(in + whole_cols * kSize, in_stride, whole_rows, cols - whole_cols,
                       out + whole_cols * out_stride, out_stride);
    transpose_plain<T>(in + whole_rows * in_stride, in_stride, rows - whole_rows, cols,
                       out + whole_rows * kSize, out_stride);
}

GPUMAT_AVX512 void stream_avx512(const std::byte* from, std::byte* to, std::int64_t bytes) {
    std::int64_t done = bytes_to_line(to, bytes);
    std::memcpy(to, from, static_cast<std::size_t>(done));
    for (; done + kLineBytes <= bytes; done += kLineBytes) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + done), _mm512_loadu_si512(from + done));
    }
    std::memcpy(to + done, from + done, static_cast<std::size_t>(bytes - done));
}

GPUMAT_AVX2 void stream_avx2(const std::byte* from, std::byte* to, std::int64_t bytes) {
    std::int64_t done = bytes_to_line(to, bytes);
    std::memcpy(to, from, static_cast<std::size_t>(done));
    for (; done + kLineBytes <= bytes; done += kLineBytes) {
        const auto* line = reinterpret_cast<const __m256i*>(from + done);
        auto* target = reinterpret_cast<__m256i*>(to + done);
        _mm256_stream_si256(target, _mm256_loadu_si256(line));
        _mm256_stream_si256(target + 1, _mm256_loadu_si256(line + 1));
    }
    std::memcpy(to + done, from + done, static_cast<std::size_t>(bytes - done));
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

template <class T>
void transpose(const Problem& p, const Operands& operands, int threads, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kTileRows = kRunBytes / kSize;
    constexpr std::int64_t kTileCols = kReadBytes / kSize;
    const auto* in = static_cast<const std::byte*>(operands.a);
    auto* out = static_cast<std::byte*>(operands.c);
    const std::int64_t across = (p.n + kTileCols - 1) / kTileCols;
    const std::int64_t tiles = across * ((p.m + kTileRows - 1) / kTileRows);
    const Stream write = p.m * p.n * kSize < kStreamFromBytes ? stream_plain : use.stream;
    parallel_for(tiles, kTilesAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
        Stage<kTileCols> stage;
        for (std::int64_t tile = begin; tile < end; ++tile) {
            const std::int64_t i = tile / across * kTileRows;
            const std::int64_t j = tile % across * kTileCols;
            const std::int64_t rows = std::min(kTileRows, p.m - i);
            const std::int64_t cols = std::min(kTileCols, p.n - j);
            use.transpose(in + (i * p.n + j) * kSize, p.n * kSize, rows, cols, stage.row(0), kStride);
            for (std::int64_t col = 0; col < cols; ++col) {
                write(stage.row(col), out + ((j + col) * p.m + i) * kSize, rows * kSize);
            }
        }
        finish_streaming();
    });
}

template <class T>
void transpose_in_place(std::byte* matrix, std::int64_t n, int threads, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = kRunBytes / kSize;
    const std::int64_t across = (n + kSide - 1) / kSide;
    parallel_for(across * across, kTilesAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
        Stage<kSide> upper;
        Stage<kSide> lower;
        for (std::int64_t tile = begin; tile < end; ++tile) {
            const std::int64_t i = tile / across * kSide;
            const std::int64_t j = tile % across * kSide;
            if (j < i) continue;  // swapped with its mirror image
            const std::int64_t rows = std::min(kSide, n - i);
            const std::int64_t cols = std::min(kSide, n - j);
            std::byte* above = matrix + (i * n + j) * kSize;
            std::byte* below = matrix + (j * n + i) * kSize;
            use.transpose(above, n * kSize, rows, cols, upper.row(0), kStride);
            use.transpose(below, n * kSize, cols, rows, lower.row(0), kStride);
            for (std::int64_t col = 0; col < cols; ++col) {
                stream_plain(upper.row(col), below + col * n * kSize, rows * kSize);
            }
            for (std::int64_t row = 0; row < rows; ++row) {
                stream_plain(lower.row(row), above + row * n * kSize, cols * kSize);
            }
        }
    });
}

}  // namespace

Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) -> Launch {
        const VectorWidth width = vector_width(problem);
        const Functions use = functions_for<T>(width);
        return {.level = "vectorized",
                .run =
                    [problem, operands, threads = device.threads, use] {
                        if (problem.in_place) {
                            transpose_in_place<T>(static_cast<std::byte*>(operands.c), problem.n, threads,
                                                  use);
                        } else {
                            transpose<T>(problem, operands, threads, use);
                        }
                    },
                .details = {{"vectors", std::string(name_of(width))}}};
    });
}

}  // namespace gpumat::transpose::cpu
