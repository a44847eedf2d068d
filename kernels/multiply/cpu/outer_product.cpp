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
// Packing is also where types become what the vector units multiply: f16 and bf16 become f32, i8 becomes
// groups of four or two steps of k in 32 bits, whose products one instruction adds up exactly, and a row of
// complex numbers becomes a row of real parts and one of imaginary parts, so that the four products of two
// complex numbers are four multiply-adds of whole vectors and nothing is moved within one.
//
// A panel of B (384 · 128 bytes) stays in the nearest caches while the panels of A for some 240 rows, which
// stay in the second, pass by. The loop prefetches what comes next: a kibibyte of A from the
// second cache, the next panel of B from the third, and its own rows of C. Traffic: A and B are packed once
// for each 3840 columns or rows of the other; C is read and written once for each 384 of depth. What limits
// it: the multiply-add units; then packing, a twentieth of the time at 2048³, and that traffic of C.
//
// The additions of an element are in the same order on any number of threads: k by k within a block of
// depth, then block by block; α and β·D come after the last, as in the other levels. AVX-512, AVX2 with FMA
// or plain code is decided when the level is prepared.
//
// Source of the idea: K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008); F. Van Zee and R. van de Geijn, "BLIS" (2015); the rank-1 update, V. Volkov (2008).
#include "kernels/multiply/cpu/outer_product.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "core/memory.hpp"
#include "core/numbers/shape.hpp"
#include "core/numbers/whole.hpp"
#include "kernels/common/team.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/levels.hpp"

namespace gpumat::multiply::cpu {
namespace {

constexpr std::int64_t kBlockRows = 3840;  // of C that are worked on at once
constexpr std::int64_t kBlockCols = 3840;
constexpr std::int64_t kTaskBytes =
    384 * 1024;  // of A, in the second-level cache of the thread that has a task
constexpr std::int64_t kTaskCols = 768;
constexpr std::int64_t kDivisions = 8;  // of the largest task, in each direction
constexpr std::int64_t kLoad = 4;       // loading an element of a task takes as long as so many multiply-adds
constexpr std::int64_t kPanelsAtOnce = 4;  // packed by one thread, so that it reads long pieces of rows

// Below this many operations more threads cost more than they gain.
constexpr double kThreadedFlops = 4e6;

/// The size of the parts of `extent` that are at most `most` large, nearly equal and multiples of `unit`.
std::int64_t even_part(std::int64_t extent, std::int64_t most, std::int64_t unit) {
    const std::int64_t count = std::max<std::int64_t>(1, ceil_div(extent, most / unit * unit));
    return std::max(unit, round_up(ceil_div(extent, count), unit));
}

Kernel kernel_for(Type type, VectorWidth width) {
#ifdef __x86_64__
    if (width == VectorWidth::avx512) return avx512_kernel(type);
    if (width == VectorWidth::avx2) return avx2_kernel(type);
#endif
    static_cast<void>(width);
    return plain_kernel(type);
}

/// The extents of blocks, and of the tasks that threads share out, in elements.
struct Blocking {
    std::int64_t depth;
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t task_rows = 0;
    std::int64_t task_cols = 0;

    /// Takes the tasks with which the thread that has most of them is done first.
    Blocking(const Problem& p, const Kernel& use, int threads)
        : depth(even_part(p.k, use.depth, use.group)),
          rows(even_part(p.m, kBlockRows, use.rows)),
          cols(even_part(p.n, kBlockCols, use.cols)) {
        const std::int64_t most_rows =
            std::max<std::int64_t>(1, kTaskBytes / std::max<std::int64_t>(1, use.a_panel(depth))) * use.rows;
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (std::int64_t down = 1; down <= kDivisions; ++down) {
            for (std::int64_t across = 1; across <= kDivisions; ++across) {
                const std::int64_t r = even_part(rows, std::max(most_rows / down, use.rows), use.rows);
                const std::int64_t c = even_part(cols, std::max(kTaskCols / across, use.cols), use.cols);
                const std::int64_t tasks_of_one =
                    ceil_div<std::int64_t>(ceil_div(rows, r) * ceil_div(cols, c), threads);
                const std::int64_t steps = tasks_of_one * (r * c + kLoad * (r + c));
                if (steps >= least) continue;
                least = steps;
                task_rows = r;
                task_cols = c;
            }
        }
    }
};

/// What is held beside the operands: a block of A and of B, packed, and the sums of a block of C where they
/// are of a wider type than C.
struct Work {
    Buffer a;
    Buffer b;
    Buffer sums;
};

/// A matrix as bytes.
template <class Byte>
struct Place {
    Byte* data;
    std::int64_t ld;
    std::int64_t size;  ///< of an element

    [[nodiscard]] Byte* at(std::int64_t row, std::int64_t col) const {
        return data == nullptr ? nullptr : data + (row * ld + col) * size;
    }
};

/// One run.
struct Run {
    const Problem& p;
    const Kernel& use;
    const Blocking& blocking;
    Place<const std::byte> a;
    Place<const std::byte> b;
    Place<const std::byte> d;  ///< no data: nothing is added
    Place<std::byte> c;
    Place<std::byte> sums;  ///< no data: C has them
    const void* alpha;
    const void* beta;
    std::byte* packed_a;
    std::byte* packed_b;

    /// Packs op(A)'s rows and op(B)'s columns of the block for [k, k + depth).
    void pack(Team& team, const Block& block, std::int64_t k, std::int64_t depth) const {
        const std::int64_t rows = use.rows * kPanelsAtOnce;
        const std::int64_t cols = use.cols * kPanelsAtOnce;
        const std::int64_t items_of_b = ceil_div(block.cols, cols);
        team.share(items_of_b + ceil_div(block.rows, rows), [&](std::int64_t item) {
            if (item < items_of_b) {
                pack_b(block, item * cols, std::min(cols, block.cols - item * cols), k, depth);
            } else {
                const std::int64_t i = (item - items_of_b) * rows;
                pack_a(block, i, std::min(rows, block.rows - i), k, depth);
            }
        });
    }

    void pack_a(const Block& block, std::int64_t i, std::int64_t rows, std::int64_t k,
                std::int64_t depth) const {
        const std::int64_t row = block.row + i;
        use.pack_a({.data = p.transpose_a ? a.at(k, row) : a.at(row, k),
                    .ld = a.ld,
                    .width = rows,
                    .depth = depth,
                    .across = !p.transpose_a},
                   packed_a + i / use.rows * use.a_panel(depth));
    }

    void pack_b(const Block& block, std::int64_t j, std::int64_t cols, std::int64_t k,
                std::int64_t depth) const {
        const std::int64_t col = block.col + j;
        use.pack_b({.data = p.transpose_b ? b.at(col, k) : b.at(k, col),
                    .ld = b.ld,
                    .width = cols,
                    .depth = depth,
                    .across = p.transpose_b},
                   packed_b + j / use.cols * use.b_panel(depth));
    }

    /// Adds the packed block's products to the sums of C's block; the last block of k makes elements of them.
    void multiply(Team& team, const Block& block, std::int64_t k, std::int64_t depth) const {
        const std::int64_t across = ceil_div(block.cols, blocking.task_cols);
        team.share(ceil_div(block.rows, blocking.task_rows) * across, [&](std::int64_t task) {
            const std::int64_t row = task / across * blocking.task_rows;
            const std::int64_t col = task % across * blocking.task_cols;
            const std::int64_t end_row = std::min(row + blocking.task_rows, block.rows);
            const std::int64_t end_col = std::min(col + blocking.task_cols, block.cols);
            for (std::int64_t j = col; j < end_col; j += use.cols) {
                for (std::int64_t i = row; i < end_row; i += use.rows) {
                    multiply_tile(block,
                                  {i, j, std::min(use.rows, end_row - i), std::min(use.cols, end_col - j)}, k,
                                  depth);
                }
            }
        });
    }

    /// The tile is within the block.
    void multiply_tile(const Block& block, const Block& tile, std::int64_t k, std::int64_t depth) const {
        const bool last = k + depth >= p.k;
        const std::int64_t row = block.row + tile.row;
        const std::int64_t col = block.col + tile.col;
        const bool apart = sums.data != nullptr;
        std::byte* const before = apart ? sums.at(tile.row, tile.col) : c.at(row, col);
        const std::int64_t before_ld = apart ? sums.ld : c.ld;
        const std::byte* const panel = packed_b + tile.col / use.cols * use.b_panel(depth);
        // The next panel of B is on its way while tiles use this one, a line of the cache for each step of k.
        const std::int64_t parts = ceil_div<std::int64_t>(use.b_line, 64);
        const std::int64_t part = tile.row / use.rows % parts;
        use.multiply(use.lines(depth), packed_a + tile.row / use.rows * use.a_panel(depth), panel,
                     {.to = last ? c.at(row, col) : before,
                      .before = k == 0 ? nullptr : before,
                      .add = d.at(row, col),
                      .ld = last ? c.ld : before_ld,
                      .before_ld = before_ld,
                      .add_ld = d.ld,
                      .rows = tile.rows,
                      .cols = tile.cols,
                      .alpha = alpha,
                      .beta = beta,
                      .last = last,
                      .next = panel + use.b_panel(depth) + part * use.lines(depth) * 64});
    }

    /// The blocks in the order of Goto and van de Geijn; where K = 0, one of no depth that only writes β·D.
    void operator()(Team& team) const {
        for (std::int64_t col = 0; col < p.n; col += blocking.cols) {
            for (std::int64_t row = 0; row < p.m; row += blocking.rows) {
                const Block block{row, col, std::min(blocking.rows, p.m - row),
                                  std::min(blocking.cols, p.n - col)};
                std::int64_t k = 0;
                do {
                    const std::int64_t depth = std::min(blocking.depth, p.k - k);
                    pack(team, block, k, depth);
                    multiply(team, block, k, depth);
                    k += depth;
                } while (k < p.k);
            }
        }
    }
};

}  // namespace

Launch prepare_outer_product(const Problem& problem, const Operands& operands, const Device& device) {
    const VectorWidth width = vector_width(problem);
    const Kernel use = kernel_for(problem.type, width);
    const int threads = problem.flops() < kThreadedFlops ? 1 : device.threads;
    const Blocking blocking(problem, use, threads);
    const auto size = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes); };
    const bool apart = size(use.sum_size) != size_of(result_type(problem)) && problem.k > blocking.depth;
    const auto work = std::make_shared<Work>(
        Work{Buffer(size(ceil_div(blocking.rows, use.rows) * use.a_panel(blocking.depth))),
             Buffer(size(ceil_div(blocking.cols, use.cols) * use.b_panel(blocking.depth))),
             Buffer(apart ? size(blocking.rows * blocking.cols * use.sum_size) : 0)});
    return {.level = "outer-product",
            .run =
                [problem, operands, use, blocking, threads, work](Stream) {
                    const auto in = static_cast<std::int64_t>(size_of(problem.type));
                    const auto out = static_cast<std::int64_t>(size_of(result_type(problem)));
                    visit_multiply_type(problem.type, [&]<class T>(TypeTag<T>) {
                        const Epilogue<T> scalars(problem, operands);
                        const Run run{.p = problem,
                                      .use = use,
                                      .blocking = blocking,
                                      .a = {operands.a.as<std::byte>(), operands.a.pitch, in},
                                      .b = {operands.b.as<std::byte>(), operands.b.pitch, in},
                                      .d = {reinterpret_cast<const std::byte*>(scalars.d), scalars.ldd, out},
                                      .c = {operands.c.as<std::byte>(), operands.c.pitch, out},
                                      .sums = {work->sums.data(), blocking.cols, use.sum_size},
                                      .alpha = &scalars.alpha,
                                      .beta = &scalars.beta,
                                      .packed_a = work->a.data(),
                                      .packed_b = work->b.data()};
                        Team::run(threads, run);
                    });
                },
            .details = {{"vectors", std::string(name_of(width))},
                        {"tile", std::to_string(use.rows) + "x" + std::to_string(use.cols)},
                        {"threads", std::to_string(threads)}}};
}

}  // namespace gpumat::multiply::cpu
