// multiply, CPU level `outer-product`: C as a sum of outer products, a tile of it kept in vector registers.
//
// Since `tiled`: the inner loop takes a column of 12 elements of A and a row of B (32 f32 or 16 f64 with
// AVX-512) and adds their outer product to a tile of C that stays in registers for the whole depth of a
// block. 24 multiply-adds of a register each need 12 + 2 loads, where `tiled` loads and stores a sum for
// each of them, and all 24 are independent, which hides their latency.
//
// For that, both operands are packed in the order in which the loop reads them: A in panels of 12 rows,
// B in panels of 32 columns, each column or row of a panel after the other, edges filled with zeros. So
// the loop is the same for every storage and shape, reads in order and never crosses pages at a stride.
// A panel of B (384 · 128 bytes) stays in the nearest caches while the panels of A for 240 rows, which
// stay in the second, pass by. The loop prefetches what comes next: a kibibyte of A from the
// second cache, the next panel of B from the third, and its own rows of C. Traffic: A and B are packed once
// for each 3840 columns or rows of the other; C is read and written once for each 384 of depth. What limits
// it: the multiply-add units; then packing, a twentieth of the time at 2048³, and that traffic of C.
//
// The additions of an element are in the same order on any number of threads: k by k within a block of
// depth, then block by block. Constraints: f32 and f64; the 16-bit, complex and integer types stay with
// `tiled`. AVX-512, AVX2 with FMA or plain code is decided when the level is prepared.
//
// Source of the idea: K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008); F. Van Zee and R. van de Geijn, "BLIS" (2015); the rank-1 update, V. Volkov (2008).
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/common/intrinsics.hpp"
#include "kernels/common/team.hpp"
#include "kernels/common/vector.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/levels.hpp"
#include "lib/core/memory.hpp"
#include "lib/core/shape.hpp"

namespace gpumat::multiply::cpu {
namespace {

// Blocks, in elements: the depth of the panels, the part of C that one thread takes at once, and the part of
// A and B that is packed at once.
constexpr std::int64_t kDepth = 384;
constexpr std::int64_t kTaskRows = 240;
constexpr std::int64_t kTaskCols = 768;
constexpr std::int64_t kBlockRows = 3840;
constexpr std::int64_t kBlockCols = 3840;
constexpr std::int64_t kAheadBytes = 1024;  // of a panel of A, from the second-level cache to the first
constexpr std::int64_t kPanelsAtOnce = 4;   // packed by one thread, so that it reads long pieces of rows
static_assert(kBlockRows % kTaskRows == 0 && kBlockCols % kTaskCols == 0, "tasks do not cross blocks");

// Below this many operations more threads cost more than they gain.
constexpr double kThreadedFlops = 4e6;

std::int64_t pieces(std::int64_t count, std::int64_t size) {
    return (count + size - 1) / size;
}

/// A tile of the result: C = α·sum + scale·add, whose rows are `ld` and `add_ld` apart.
template <class T>
struct Target {
    T* c;
    const T* add;  ///< null: nothing is added
    std::int64_t ld;
    std::int64_t add_ld;
    std::int64_t rows;
    std::int64_t cols;
    T alpha;
    T scale;
    const T* next;  ///< what of B is read later: a line for each step of depth is prefetched
};

// ---- Packing. A panel holds, for each k, `kWidth` elements; those beyond `width` are 0. ----

/// From storage in which the elements of one k are neighbours; `ld` is the way from k to k + 1.
template <class T, int kWidth>
void pack_along(const T* from, std::int64_t ld, std::int64_t width, std::int64_t depth, T* to) {
    for (std::int64_t panel = 0; panel * kWidth < width; ++panel) {
        const std::int64_t filled = std::min<std::int64_t>(kWidth, width - panel * kWidth);
        const T* line = from + panel * kWidth;
        T* target = to + panel * kWidth * depth;
        for (std::int64_t k = 0; k < depth; ++k, line += ld, target += kWidth) {
            if (filled == kWidth) {
                std::memcpy(target, line, kWidth * sizeof(T));
            } else {
                for (std::int64_t i = 0; i < kWidth; ++i) target[i] = i < filled ? line[i] : T{};
            }
        }
    }
}

/// 16 bytes: what every processor of the platform has.
template <class T>
using Lane = Vector<T, 16 / sizeof(T)>;

template <class T>
GPUMAT_INLINE Lane<T> load_lane(const T* from) {
    Lane<T> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}
template <class T>
GPUMAT_INLINE void store_lane(T* to, Lane<T> value) {
    std::memcpy(to, &value, sizeof value);
}

/// Transposes 16 / size rows of 16 bytes; rows of `from` are ld apart, rows of `to` kWidth.
template <int kWidth>
GPUMAT_INLINE void transpose_lanes(const float* from, std::int64_t ld, float* to) {
    const auto a = load_lane(from);
    const auto b = load_lane(from + ld);
    const auto c = load_lane(from + 2 * ld);
    const auto d = load_lane(from + 3 * ld);
    const auto ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    const auto ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    const auto bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    const auto bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    store_lane(to, __builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5));
    store_lane(to + kWidth, __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7));
    store_lane(to + 2 * kWidth, __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5));
    store_lane(to + 3 * kWidth, __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7));
}
template <int kWidth>
GPUMAT_INLINE void transpose_lanes(const double* from, std::int64_t ld, double* to) {
    const auto a = load_lane(from);
    const auto b = load_lane(from + ld);
    store_lane(to, __builtin_shufflevector(a, b, 0, 2));
    store_lane(to + kWidth, __builtin_shufflevector(a, b, 1, 3));
}

/// From storage in which the elements of one k are `ld` apart, and k + 1 follows k.
template <class T, int kWidth>
void pack_across(const T* from, std::int64_t ld, std::int64_t width, std::int64_t depth, T* to) {
    constexpr int kLanes = 16 / sizeof(T);
    static_assert(kWidth % kLanes == 0, "a panel is whole lanes wide");
    const std::int64_t whole = depth / kLanes * kLanes;
    for (std::int64_t i = 0; i < pieces(width, kWidth) * kWidth; i += kLanes) {
        const T* rows = from + i * ld;
        T* target = to + i / kWidth * kWidth * depth + i % kWidth;
        const std::int64_t filled = std::clamp<std::int64_t>(width - i, 0, kLanes);
        std::int64_t k = 0;
        if (filled == kLanes) {
            for (; k < whole; k += kLanes) transpose_lanes<kWidth>(rows + k, ld, target + k * kWidth);
        }
        for (; k < depth; ++k) {
            for (std::int64_t lane = 0; lane < kLanes; ++lane) {
                target[k * kWidth + lane] = lane < filled ? rows[lane * ld + k] : T{};
            }
        }
    }
}

// ---- The loop over k, and what becomes of its sums. ----

template <class T>
GPUMAT_INLINE void store_row(const T* sums, const Target<T>& t, std::int64_t i, std::int64_t cols) {
    T* c = t.c + i * t.ld;
    if (t.add == nullptr) {
        for (std::int64_t j = 0; j < cols; ++j) c[j] = t.alpha * sums[j];
    } else {
        const T* add = t.add + i * t.add_ld;
        for (std::int64_t j = 0; j < cols; ++j) c[j] = t.alpha * sums[j] + t.scale * add[j];
    }
}

template <class T, int kRows, int kCols>
GPUMAT_INLINE void store_tile(const T* sums, const Target<T>& t) {
    if (t.cols == kCols) {  // a constant, so that the loops become a few vector instructions
        for (std::int64_t i = 0; i < t.rows; ++i) store_row(sums + i * kCols, t, i, kCols);
    } else {
        for (std::int64_t i = 0; i < t.rows; ++i) store_row(sums + i * kCols, t, i, t.cols);
    }
}

/// Prefetches the part of A that is read kAheadBytes later, and, to the second-level cache, a line of B.
template <class T, int kRows>
GPUMAT_INLINE void prefetch_panels(const T* a, const T* next, std::int64_t k) {
    constexpr std::int64_t kAhead = kAheadBytes / sizeof(T);
    constexpr std::int64_t kLine = 64 / sizeof(T);
    for (std::int64_t i = 0; i < kRows; i += kLine) __builtin_prefetch(a + kAhead + i);
    __builtin_prefetch(next + k * kLine, 0, 2);
}

/// Prefetches a row of the tile that the sums will be added to.
template <class T, int kCols>
GPUMAT_INLINE void prefetch_row(const Target<T>& t, std::int64_t i) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    for (std::int64_t j = 0; j < kCols; j += kLine) __builtin_prefetch(t.c + i * t.ld + j, 1);
}

/// Compiled for each width of vectors, of kBytes. A product and a sum become one instruction where there is
/// one.
template <class T, int kBytes, int kRows, int kVectors>
GPUMAT_INLINE void add_product(const T* a, const T* b,
                               Vector<T, kBytes / sizeof(T)> (&sums)[kRows][kVectors]) {
    constexpr int kLanes = kBytes / sizeof(T);
    Vector<T, kLanes> line[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) std::memcpy(&line[v], b + v * kLanes, kBytes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[i][v] += a[i] * line[v];
    }
}

template <class T, int kBytes, int kRows, int kVectors>
GPUMAT_INLINE void multiply_tile(std::int64_t depth, const T* a, const T* b, const Target<T>& target) {
    constexpr int kCols = kVectors * kBytes / sizeof(T);
    Vector<T, kBytes / sizeof(T)> sums[kRows][kVectors] = {};
    // A row of C a step: all at once would fill the buffers that loads of A and B wait for as well.
    const std::int64_t ahead = std::min(depth, target.rows);
    for (std::int64_t k = 0; k < ahead; ++k) {
        prefetch_row<T, kCols>(target, k);
        prefetch_panels<T, kRows>(a + k * kRows, target.next, k);
        add_product<T, kBytes>(a + k * kRows, b + k * kCols, sums);
    }
    for (std::int64_t k = ahead; k < depth; ++k) {
        prefetch_panels<T, kRows>(a + k * kRows, target.next, k);
        add_product<T, kBytes>(a + k * kRows, b + k * kCols, sums);
    }
    alignas(64) T tile[kRows * kCols];
    std::memcpy(tile, sums, sizeof tile);
    store_tile<T, kRows, kCols>(tile, target);
}

template <class T>
void multiply_plain(std::int64_t depth, const T* a, const T* b, const Target<T>& target) {
    multiply_tile<T, 16, 4, 2>(depth, a, b, target);
}
#ifdef __x86_64__
template <class T>
GPUMAT_AVX2 void multiply_avx2(std::int64_t depth, const T* a, const T* b, const Target<T>& target) {
    multiply_tile<T, 32, 4, 3>(depth, a, b, target);
}
template <class T>
GPUMAT_AVX512 void multiply_avx512(std::int64_t depth, const T* a, const T* b, const Target<T>& target) {
    multiply_tile<T, 64, 12, 2>(depth, a, b, target);
}
#endif

// ---- The blocks around it. ----

/// The functions for one type and width of vectors, and the tile that they work on.
template <class T>
struct Kernel {
    using Pack = void (*)(const T* from, std::int64_t ld, std::int64_t width, std::int64_t depth, T* to);

    std::int64_t rows;
    std::int64_t cols;
    Pack pack_a_along;
    Pack pack_a_across;
    Pack pack_b_along;
    Pack pack_b_across;
    void (*multiply)(std::int64_t depth, const T* a, const T* b, const Target<T>& target);
};

template <class T, int kRows, int kCols>
Kernel<T> make_kernel(void (*multiply)(std::int64_t, const T*, const T*, const Target<T>&)) {
    static_assert(kTaskRows % kRows == 0 && kTaskCols % kCols == 0, "a task is whole tiles");
    return {kRows,
            kCols,
            pack_along<T, kRows>,
            pack_across<T, kRows>,
            pack_along<T, kCols>,
            pack_across<T, kCols>,
            multiply};
}

template <class T>
Kernel<T> kernel_for(VectorWidth width) {
    constexpr int kSize = sizeof(T);
#ifdef __x86_64__
    if (width == VectorWidth::avx512) return make_kernel<T, 12, 128 / kSize>(multiply_avx512<T>);
    if (width == VectorWidth::avx2) return make_kernel<T, 4, 96 / kSize>(multiply_avx2<T>);
#endif
    static_cast<void>(width);
    return make_kernel<T, 4, 32 / kSize>(multiply_plain<T>);
}

/// One run: the operands, and the memory that a block of A and of B is packed into.
template <class T>
struct Run {
    const Problem& p;
    const Operands& operands;
    const Kernel<T>& use;
    Epilogue<T> scalars;
    T* packed_a;
    T* packed_b;

    /// Packs op(A)'s rows [row, row + rows) for [k, k + depth).
    void pack_a(Team& team, std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t depth) const {
        const auto* a = operands.a.as<T>();
        const std::int64_t lda = operands.a.pitch;
        const std::int64_t step = use.rows * kPanelsAtOnce;
        team.share(pieces(rows, step), [&](std::int64_t item) {
            const std::int64_t i = item * step;
            const std::int64_t width = std::min(step, rows - i);
            if (p.transpose_a) {
                use.pack_a_along(a + k * lda + row + i, lda, width, depth, packed_a + i * depth);
            } else {
                use.pack_a_across(a + (row + i) * lda + k, lda, width, depth, packed_a + i * depth);
            }
        });
    }

    /// Packs op(B)'s columns [col, col + cols) for [k, k + depth).
    void pack_b(Team& team, std::int64_t col, std::int64_t cols, std::int64_t k, std::int64_t depth) const {
        const auto* b = operands.b.as<T>();
        const std::int64_t ldb = operands.b.pitch;
        const std::int64_t step = use.cols * kPanelsAtOnce;
        team.share(pieces(cols, step), [&](std::int64_t item) {
            const std::int64_t j = item * step;
            const std::int64_t width = std::min(step, cols - j);
            if (p.transpose_b) {
                use.pack_b_across(b + (col + j) * ldb + k, ldb, width, depth, packed_b + j * depth);
            } else {
                use.pack_b_along(b + k * ldb + col + j, ldb, width, depth, packed_b + j * depth);
            }
        });
    }

    /// Adds the packed block's products to C's block at (row, col); the first block brings β·D in.
    void multiply(Team& team, const Block& block, std::int64_t k, std::int64_t depth) const {
        auto* c = operands.c.as<T>();
        const std::int64_t ldc = operands.c.pitch;
        const T* add = k == 0 ? scalars.d : c;
        const std::int64_t add_ld = k == 0 ? operands.d.pitch : ldc;
        const T scale = k == 0 ? scalars.beta : T{1};
        const std::int64_t across = pieces(block.cols, kTaskCols);
        team.share(pieces(block.rows, kTaskRows) * across, [&](std::int64_t task) {
            const std::int64_t first_row = task / across * kTaskRows;
            const std::int64_t first_col = task % across * kTaskCols;
            const std::int64_t end_row = std::min(first_row + kTaskRows, block.rows);
            const std::int64_t end_col = std::min(first_col + kTaskCols, block.cols);
            for (std::int64_t j = first_col; j < end_col; j += use.cols) {
                for (std::int64_t i = first_row; i < end_row; i += use.rows) {
                    const std::int64_t row = block.row + i;
                    const std::int64_t col = block.col + j;
                    // The next panel of B is on its way while tiles use this one; two tiles prefetch all of
                    // it.
                    const std::int64_t part = i / use.rows % 2;
                    use.multiply(depth, packed_a + i * depth, packed_b + j * depth,
                                 {.c = c + row * ldc + col,
                                  .add = add == nullptr ? nullptr : add + row * add_ld + col,
                                  .ld = ldc,
                                  .add_ld = add_ld,
                                  .rows = std::min(use.rows, end_row - i),
                                  .cols = std::min(use.cols, end_col - j),
                                  .alpha = scalars.alpha,
                                  .scale = scale,
                                  .next = packed_b + (j + use.cols) * depth + part * depth * use.cols / 2});
                }
            }
        });
    }

    /// The blocks in the order of Goto and van de Geijn; where K = 0, one of no depth that only writes β·D.
    void operator()(Team& team) const {
        for (std::int64_t col = 0; col < p.n; col += kBlockCols) {
            const std::int64_t cols = std::min(kBlockCols, p.n - col);
            std::int64_t k = 0;
            do {
                const std::int64_t depth = std::min(kDepth, p.k - k);
                pack_b(team, col, cols, k, depth);
                for (std::int64_t row = 0; row < p.m; row += kBlockRows) {
                    const Block block{row, col, std::min(kBlockRows, p.m - row), cols};
                    pack_a(team, row, block.rows, k, depth);
                    multiply(team, block, k, depth);
                }
                k += depth;
            } while (k < p.k);
        }
    }
};

struct Panels {
    Buffer a;
    Buffer b;
};

template <class T>
Launch prepare(const Problem& problem, const Operands& operands, const Device& device) {
    const VectorWidth width = vector_width(problem);
    const Kernel<T> use = kernel_for<T>(width);
    const int threads = problem.flops() < kThreadedFlops ? 1 : device.threads;
    const std::int64_t depth = std::min(kDepth, problem.k);
    const auto bytes = [depth](std::int64_t extent, std::int64_t panel) {
        return static_cast<std::size_t>(pieces(extent, panel) * panel * depth) * sizeof(T);
    };
    const auto panels =
        std::make_shared<Panels>(Panels{Buffer(bytes(std::min(problem.m, kBlockRows), use.rows)),
                                        Buffer(bytes(std::min(problem.n, kBlockCols), use.cols))});
    return {.level = "outer-product",
            .run =
                [problem, operands, use, threads, panels](Stream) {
                    const Run<T> run{problem,
                                     operands,
                                     use,
                                     Epilogue<T>(problem, operands),
                                     reinterpret_cast<T*>(panels->a.data()),
                                     reinterpret_cast<T*>(panels->b.data())};
                    Team::run(threads, run);
                },
            .details = {{"vectors", std::string(name_of(width))},
                        {"tile", std::to_string(use.rows) + "x" + std::to_string(use.cols)},
                        {"threads", std::to_string(threads)}}};
}

}  // namespace

Launch prepare_outer_product(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.type == Type::f32) return prepare<float>(problem, operands, device);
    return prepare<double>(problem, operands, device);
}

}  // namespace gpumat::multiply::cpu
