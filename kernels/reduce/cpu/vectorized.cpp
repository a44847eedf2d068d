// reduce, CPU level `vectorized`: vectors of independent sums, shared out among all threads in fixed pieces.
//
// Since `serial`: four vectors of sums do not wait for each other, so that the additions are no longer what
// sets the pace, and several cores read at the same time. Traffic: every element is read once, in order;
// columns keep their sums in the nearest cache while rows of them pass by. What limits it: the memory.
//
// Pieces have a size that depends on the vectors alone and are merged in their order, so the result has the
// same bits on any number of threads. AVX-512, AVX2 with FMA or plain code is decided when the level is
// prepared.
//
// Source of the idea: partial sums, as compilers make them where they may reorder additions; what a total
// keeps of its roundings, T. Ogita, S. Rump and S. Oishi, "Accurate Sum and Dot Product" (2005).
#include <algorithm>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/cpu/levels.hpp"
#include "kernels/reduce/cpu/pieces.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce::cpu {
namespace {

// Short rows are taken together up to about so many elements.
constexpr std::int64_t kElementsAtOnce = std::int64_t{1} << 16U;

/// The matrix, where the results go, and how pieces are worked on.
struct Job {
    Pieces pieces;
    Piece matrix;
    std::int64_t size;  ///< of an element
    Results results;
    int threads;

    [[nodiscard]] const void* at(std::int64_t row, std::int64_t col) const {
        return static_cast<const std::byte*>(matrix.data) + (row * matrix.pitch + col) * size;
    }
    void add_rows(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end,
                  AnyTotal& total) const {
        for (std::int64_t i = row; i < row + rows; ++i)
            pieces.add_row(at(i, begin), end - begin, results.ending.mirror, total);
    }
    [[nodiscard]] std::vector<AnyTotal> totals(std::int64_t count) const {
        std::vector<AnyTotal> all(static_cast<std::size_t>(count));
        for (AnyTotal& total : all) pieces.start(total);
        return all;
    }
    void finish(std::int64_t result, const AnyTotal& total) const { pieces.store(results, result, total); }
};

/// One result: pieces of long rows, or short rows together.
void reduce_all(const Job& job) {
    const auto& [data, rows, cols, pitch] = job.matrix;
    const std::int64_t across = std::max<std::int64_t>(1, ceil_div(cols, job.pieces.most_elements));
    const std::int64_t together =
        across > 1 ? 1 : std::max<std::int64_t>(1, kElementsAtOnce / std::max<std::int64_t>(1, cols));
    const std::int64_t down = cols == 0 ? 0 : ceil_div(rows, together);
    std::vector<AnyTotal> totals = job.totals(down * across);
    parallel_for(down * across, 1, job.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t row = i / across * together;
            const std::int64_t col = i % across * job.pieces.most_elements;
            job.add_rows(row, std::min(together, job.matrix.rows - row), col,
                         std::min(job.matrix.cols, col + job.pieces.most_elements),
                         totals[static_cast<std::size_t>(i)]);
        }
    });
    AnyTotal sum;
    job.pieces.start(sum);
    for (const AnyTotal& total : totals) job.pieces.merge(sum, total);
    job.finish(0, sum);
}

/// A result for each row. Where rows are few and long, their pieces are shared out, too.
void reduce_rows(const Job& job) {
    const std::int64_t rows = job.matrix.rows;
    const std::int64_t cols = job.matrix.cols;
    const std::int64_t across = ceil_div(cols, job.pieces.most_elements);
    if (across <= 1) {
        const std::int64_t together =
            std::max<std::int64_t>(1, kElementsAtOnce / std::max<std::int64_t>(1, cols));
        parallel_for(rows, together, job.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                AnyTotal total;
                job.pieces.start(total);
                job.add_rows(i, 1, 0, job.matrix.cols, total);
                job.finish(i, total);
            }
        });
        return;
    }
    std::vector<AnyTotal> totals = job.totals(rows * across);
    parallel_for(rows * across, 1, job.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t col = i % across * job.pieces.most_elements;
            job.add_rows(i / across, 1, col, std::min(job.matrix.cols, col + job.pieces.most_elements),
                         totals[static_cast<std::size_t>(i)]);
        }
    });
    for (std::int64_t i = 0; i < rows; ++i) {
        AnyTotal sum;
        job.pieces.start(sum);
        for (std::int64_t j = 0; j < across; ++j)
            job.pieces.merge(sum, totals[static_cast<std::size_t>(i * across + j)]);
        job.finish(i, sum);
    }
}

/// A result for each column: pieces of at most kPieceBytes a row and most_rows rows.
void reduce_columns(const Job& job) {
    const std::int64_t rows = job.matrix.rows;
    const std::int64_t cols = job.matrix.cols;
    const std::int64_t down = std::max<std::int64_t>(1, ceil_div(rows, job.pieces.most_rows));
    const std::int64_t side_by_side = kPieceBytes / job.size;
    const std::int64_t across = ceil_div(cols, side_by_side);
    std::vector<AnyTotal> totals = job.totals(down * cols);
    const auto total_at = [&](std::int64_t row_piece, std::int64_t col) {
        return totals.data() + row_piece * cols + col;
    };
    parallel_for(down * across, 1, job.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t row = i / across * job.pieces.most_rows;
            const std::int64_t col = i % across * side_by_side;
            job.pieces.add_columns({.data = job.at(row, col),
                                    .rows = std::min(job.pieces.most_rows, rows - row),
                                    .cols = std::min(side_by_side, cols - col),
                                    .pitch = job.matrix.pitch},
                                   job.results.ending.mirror, total_at(i / across, col));
        }
    });
    parallel_for(cols, side_by_side, job.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) {
            AnyTotal& sum = *total_at(0, j);
            for (std::int64_t i = 1; i < down; ++i) job.pieces.merge(sum, *total_at(i, j));
            job.finish(j, sum);
        }
    });
}

}  // namespace

Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device) {
    const VectorWidth width = vector_width(problem);
    const Axis axis = axis_of(problem);
    Job job = {.pieces = pieces_of(problem, width),
               .matrix = {operands.a.data, problem.m, problem.n, operands.a.pitch},
               .size = static_cast<std::int64_t>(size_of(problem.type)),
               .results = results_of(problem, operands.c),
               .threads = device.threads};
    if (axis == Axis::all && is_contiguous(operands.a))  // rows without gaps are one row
        job.matrix = {operands.a.data, 1, problem.m * problem.n, problem.m * problem.n};
    return {.level = "vectorized",
            .run =
                [job, axis](Stream) {
                    if (axis == Axis::rows) return reduce_rows(job);
                    if (axis == Axis::columns) return reduce_columns(job);
                    reduce_all(job);
                },
            .details = {{"vectors", std::string(name_of(width))}}};
}

}  // namespace gpumat::reduce::cpu
