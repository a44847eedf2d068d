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
//    first. Where rows of the output are not cache-line aligned, what is left of a line is kept until the
//    tile below completes it; only the ends of a strip of tiles are ordinary stores.
//  - While a tile is transposed, some of the tile before is written and some of the tile after is
//    prefetched, again and again (pending.hpp): otherwise a core transposes, writes or waits, and does not
//    reach the speed of its copies.
//
// Traffic: every element read once and written once, nothing else, as in a copy. What limits it: memory, as a
// copy; for an input of two or three columns the loads.
// Constraints: none. Columns that fill no block are a narrower one, which reads into the row below. Rows that
// fill none, and those at the end of the matrix, are loaded a register a row, and stored lane by lane.
// AVX-512, AVX2 or plain code is decided when the level is prepared.
//
// In place, a tile and its mirror image are both staged before either is written, while the next pair is
// fetched. There the lines are in the cache already, so ordinary stores write them.
//
// Source of the idea: the interleaving network is a perfect shuffle (H. Stone, 1971); staging a tile
// against conflict misses is the "copy optimization" of M. Lam, E. Rothberg and M. Wolf (1991).
#include <algorithm>
#include <cstring>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/transpose/cpu/blocks.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/cpu/pending.hpp"
#include "kernels/transpose/cpu/streaming.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::cpu {
namespace {

constexpr std::int64_t kLowBytes = 128;          // a result whose rows are no longer is staged without gaps
constexpr std::int64_t kLongRunBytes = 1024;     // a run of the output where the input is at most a line wide
constexpr std::int64_t kNarrowTileBytes = 8192;  // runs of less, down to the usual, make a tile this large
constexpr std::int64_t kSwapBytes = 256;         // a side of a tile that is swapped with its mirror image
constexpr std::int64_t kStripBytes = 8192;       // of a row of the output, that one thread writes run by run
constexpr std::int64_t kStripsAThread = 4;       // at least, where the strips can be shorter

constexpr std::int64_t kDenseBytes = std::int64_t{32} << 10;  // of a result with short rows, staged at once
static_assert(kDenseBytes >= kLineBytes * kLowBytes, "a line of columns fits");
constexpr std::int64_t kBytesAtOnce = std::int64_t{1} << 20;      // that a thread takes at least
constexpr std::int64_t kStreamFromBytes = std::int64_t{1} << 20;  // a smaller result stays in the cache

/// How a matrix is taken apart: a strip of columns into tiles side by side.
struct Shape {
    std::int64_t strip_bytes;  ///< a strip's part of one row of the input
    std::int64_t tile_bytes;   ///< a tile's part of that
    std::int64_t run_bytes;    ///< a tile's part of one row of the output
};

/// The shape for elements of `size` bytes. A tile reads as many lines as it writes, and where it is not
/// narrow, the buffers of two take 24 KiB, of bytes 48. Strips are wider, so that a line that two tiles share
/// is still in a cache for the second, and read once.
constexpr Shape shape_for(std::int64_t size) {
    if (size <= 2) return {.strip_bytes = 512, .tile_bytes = 128, .run_bytes = 128};
    return {
        .strip_bytes = std::min<std::int64_t>(256 * size, 2048), .tile_bytes = 64 * size, .run_bytes = 128};
}

/// Bytes from row to row of the buffer of a tile: its part of a row of the output, and a line between two,
/// where vectors may reach into.
constexpr std::int64_t stride_for(std::int64_t run_bytes) {
    return kLineBytes + run_bytes;
}

/// The run of a tile that is `width` bytes wide: longer where the input has few columns. It is an even number
/// of lines, so that the rows of the buffer start in different sets of the cache.
constexpr std::int64_t run_bytes_for(std::int64_t size, std::int64_t width) {
    if (width <= kLineBytes) return kLongRunBytes;
    const std::int64_t rows = kNarrowTileBytes / width;
    const std::int64_t run_bytes = rows * size / (2 * kLineBytes) * (2 * kLineBytes);
    return std::clamp(run_bytes, shape_for(size).run_bytes, kLongRunBytes);
}

/// The bytes of the buffer of a tile of any width, with a line before the first row and after the last.
/// Columns come in registers' lanes of 16 bytes.
constexpr std::int64_t stage_bytes_for(std::int64_t size) {
    const Shape shape = shape_for(size);
    std::int64_t most = 0;
    for (std::int64_t width = size; width <= shape.tile_bytes; width += size)
        most = std::max(most, (width + 15) / 16 * 16 / size * stride_for(run_bytes_for(size, width)));
    return most + kLineBytes;
}

/// How the work is done.
struct Functions {
    TransposeRectangle transpose;
    VectorWidth writes;
};

/// A part of a strip: rows from `row` on, columns from `col` on.
struct Tile {
    std::int64_t row;
    std::int64_t col;
    std::int64_t rows;
    std::int64_t cols;
};

/// The tiles of a strip, in the order in which they are transposed: from left to right, and then the next
/// below.
class Tiles {
  public:
    Tiles(std::int64_t rows, std::int64_t cols, std::int64_t tile_rows, std::int64_t tile_cols)
        : rows_(rows),
          cols_(cols),
          tile_rows_(tile_rows),
          tile_cols_(tile_cols),
          across_(ceil_div(cols, tile_cols)),
          count_(ceil_div(rows, tile_rows) * across_) {}

    [[nodiscard]] std::int64_t count() const { return count_; }
    [[nodiscard]] bool has(std::int64_t k) const { return k >= 0 && k < count_; }
    [[nodiscard]] Tile operator[](std::int64_t k) const {
        const std::int64_t row = k / across_ * tile_rows_;
        const std::int64_t col = k % across_ * tile_cols_;
        return {.row = row,
                .col = col,
                .rows = std::min(tile_rows_, rows_ - row),
                .cols = std::min(tile_cols_, cols_ - col)};
    }

  private:
    std::int64_t rows_;
    std::int64_t cols_;
    std::int64_t tile_rows_;
    std::int64_t tile_cols_;
    std::int64_t across_;
    std::int64_t count_;
};

/// Transposes rows × cols elements, at most a strip wide. While a tile is transposed, the one before is
/// written and the one after is prefetched.
template <class T>
void transpose_strip(const std::byte* in, std::int64_t in_stride, std::int64_t rows, std::int64_t cols,
                     std::byte* out, std::int64_t out_stride, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr Shape kShape = shape_for(kSize);
    const std::int64_t run_bytes = run_bytes_for(kSize, cols * kSize);
    const std::int64_t stride = stride_for(run_bytes);
    const Tiles tiles(rows, cols, run_bytes / kSize, kShape.tile_bytes / kSize);
    alignas(kLineBytes) std::byte stages[2][stage_bytes_for(kSize)];
    alignas(kLineBytes) std::byte kept[kShape.strip_bytes / kSize * kLineBytes];
    const auto at = [&](const Tile& tile) { return in + tile.row * in_stride + tile.col * kSize; };
    const auto rows_of = [&](std::int64_t k) -> Rows {
        if (!tiles.has(k)) return {};
        const Tile tile = tiles[k];
        const std::int64_t bytes = tile.cols * kSize;
        // Without gaps they are one row.
        if (bytes == in_stride) return {.first = at(tile), .bytes = tile.rows * bytes, .count = 1};
        // The tile to the left prefetched the lines in which rows begin. Those of wider elements may have
        // left the cache again where rows are about a power of two apart (measured).
        const bool heads = kSize > 1 || tile.col == 0;
        return {.first = at(tile), .stride = in_stride, .bytes = bytes, .count = tile.rows, .heads = heads};
    };
    const auto runs_of = [&](std::int64_t k) -> Runs {
        if (!tiles.has(k)) return {};
        const Tile tile = tiles[k];
        return {.from = stages[k % 2] + kLineBytes,
                .from_stride = stride,
                .to = out + tile.col * out_stride + tile.row * kSize,
                .to_stride = out_stride,
                .bytes = tile.rows * kSize,
                .count = tile.cols,
                .kept = kept + tile.col * kLineBytes,
                .first = tile.row == 0,
                .last = tile.row + tile.rows == rows};
    };
    Requests(rows_of(0), 0).finish();
    for (std::int64_t k = 0; k <= tiles.count(); ++k) {
        Pending pending(runs_of(k - 1), rows_of(k + 1), use.writes);
        if (tiles.has(k)) {
            const Tile tile = tiles[k];
            use.transpose(at(tile), in_stride, tile.rows, rows - tile.row, tile.cols,
                          stages[k % 2] + kLineBytes, stride, pending);
        }
        pending.finish();
    }
}

/// Where rows of the output have at most kLowBytes, they lie without gaps in the buffer as well.
template <class T>
void transpose_low(const std::byte* in, std::int64_t in_stride, std::byte* out, std::int64_t m,
                   std::int64_t n, int threads, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    const std::int64_t cols_at_once = kDenseBytes / (m * kSize) / kLineBytes * kLineBytes;
    const std::int64_t grain = kBytesAtOnce / kDenseBytes * cols_at_once;
    parallel_for(n, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        // Whole vectors of columns, between two lines.
        alignas(kLineBytes) std::byte buffer[kDenseBytes + kLineBytes * kLowBytes + 2 * kLineBytes];
        for (std::int64_t j = begin; j < end; j += cols_at_once) {
            const std::int64_t cols = std::min(cols_at_once, end - j);
            Pending nothing;
            use.transpose(in + j * kSize, in_stride, m, m, cols, buffer + kLineBytes, m * kSize, nothing);
            const Runs run{.from = buffer + kLineBytes,
                           .to = out + j * m * kSize,
                           .bytes = cols * m * kSize,
                           .count = 1};
            Pending(run, {}, use.writes).finish();
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
void transpose(const std::byte* in, std::int64_t in_stride, std::byte* out, std::int64_t out_stride,
               std::int64_t m, std::int64_t n, int threads, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr Shape kShape = shape_for(kSize);
    static_assert(kShape.tile_bytes % kLineBytes == 0, "tiles are made of whole lines");
    static_assert(kShape.strip_bytes % kShape.tile_bytes == 0, "strips are made of whole tiles");
    static_assert(kShape.run_bytes % (2 * kLineBytes) == 0 && kLongRunBytes % (2 * kLineBytes) == 0,
                  "rows of the buffer start in different sets");
    constexpr std::int64_t kCols = kShape.strip_bytes / kSize;
    const std::int64_t across = ceil_div(n, kCols);
    const auto strips_of = [&](std::int64_t strip_rows) { return across * ceil_div(m, strip_rows); };
    std::int64_t strip_rows = kStripBytes / kSize;
    while (strips_of(strip_rows) < kStripsAThread * threads && strip_rows > kShape.run_bytes / kSize)
        strip_rows /= 2;
    const std::int64_t strips = strips_of(strip_rows);
    const std::int64_t strip_bytes = std::min(m, strip_rows) * std::min(n, kCols) * kSize;
    parallel_for(strips, kBytesAtOnce / strip_bytes, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t strip = begin; strip < end; ++strip) {
            const std::int64_t i = strip / across * strip_rows;
            const std::int64_t j = strip % across * kCols;
            transpose_strip<T>(in + i * in_stride + j * kSize, in_stride, std::min(strip_rows, m - i),
                               std::min(kCols, n - j), out + j * out_stride + i * kSize, out_stride, use);
        }
        finish_streaming();
    });
}

/// Prefetches a row.
void fetch(const std::byte* row, std::int64_t bytes) {
    Requests({.first = row, .bytes = bytes, .count = 1}, 0).finish();
}

template <class T>
void transpose_in_place(std::byte* matrix, std::int64_t stride, std::int64_t n, int threads,
                        const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    constexpr std::int64_t kSide = kSwapBytes / kSize;
    constexpr std::int64_t kStride = stride_for(kSwapBytes);
    const std::int64_t across = ceil_div(n, kSide);
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
                         std::byte* above = matrix + i * stride + j * kSize;
                         std::byte* below = matrix + j * stride + i * kSize;
                         // Nothing but these elements may be read: other threads write.
                         Pending nothing;
                         use.transpose(above, stride, rows, 0, cols, upper, kStride, nothing);
                         use.transpose(below, stride, cols, 0, rows, lower, kStride, nothing);
                         // The next pair is on its way while this one is written.
                         const std::int64_t next = std::clamp<std::int64_t>(n - j - cols, 0, kSide);
                         for (std::int64_t col = 0; col < cols; ++col) {
                             if (col < next) fetch(below + (cols + col) * stride, rows * kSize);
                             std::memcpy(below + col * stride, upper + col * kStride,
                                         static_cast<std::size_t>(rows * kSize));
                         }
                         for (std::int64_t row = 0; row < rows; ++row) {
                             if (next > 0) fetch(above + row * stride + cols * kSize, next * kSize);
                             std::memcpy(above + row * stride, lower + row * kStride,
                                         static_cast<std::size_t>(cols * kSize));
                         }
                     }
                 });
}

template <class T>
void run(const Problem& p, const Operands& operands, int threads, const Functions& use) {
    constexpr std::int64_t kSize = sizeof(T);
    const auto* in = operands.a.as<std::byte>();
    auto* out = operands.c.as<std::byte>();
    if (p.m == 0 || p.n == 0) return;
    const std::int64_t in_stride = operands.a.pitch * kSize;
    const std::int64_t out_stride = operands.c.pitch * kSize;
    const bool in_run = is_contiguous(operands.a);
    const bool out_run = is_contiguous(operands.c);
    if (p.in_place) {
        transpose_in_place<T>(out, out_stride, p.n, threads, use);
    } else if ((p.m == 1 || p.n == 1) && in_run && out_run) {
        copy(in, out, p.m * p.n * kSize, threads);
    } else if (p.m * kSize <= kLowBytes && out_run) {
        transpose_low<T>(in, in_stride, out, p.m, p.n, threads, use);
    } else {
        transpose<T>(in, in_stride, out, out_stride, p.m, p.n, threads, use);
    }
}

}  // namespace

Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) -> Launch {
        const VectorWidth width = vector_width(problem);
        Functions use = {transpose_rectangle<T>(width), width};
        if (problem.m * problem.n * static_cast<std::int64_t>(sizeof(T)) < kStreamFromBytes) {
            use.writes = VectorWidth::plain;
        }
        return {.level = "vectorized",
                .run = [problem, operands, threads = device.threads,
                        use](Stream) { run<T>(problem, operands, threads, use); },
                .details = {{"vectors", std::string(name_of(width))}}};
    });
}

}  // namespace gpumat::transpose::cpu
