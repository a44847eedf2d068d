// reduce of sparse matrices, CPU level `rows`: vectors of independent sums along the values of rows, shared
// out among all threads.
//
// Since `serial`: the values of a row lie side by side, so that the vectors of the dense ladder add them up,
// and several cores read at the same time. A row that is longer than a piece is shared out piece by piece, so
// that one dense row is no thread's alone; columns are added up by shares of the entries, each with sums of
// its own, which are merged. Pieces and shares follow from the matrix alone and are merged in their order, so
// the result has the same bits on any number of threads. What limits it: the memory; of columns, a cache line
// an entry where the sums pass the caches.
#include <algorithm>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/reduce/cpu/pieces.hpp"
#include "kernels/reduce/cpu/sparse/columns.hpp"
#include "kernels/reduce/cpu/sparse/levels.hpp"

namespace gpumat::reduce::cpu::sparse {
namespace {

/// The entries of a piece of a long row; shorter rows are taken together up to about so many.
constexpr std::int64_t kPieceEntries = std::int64_t{1} << 16U;

struct Job {
    Operand a;
    Pieces pieces;
    AnyTotal zero;  ///< the total of a zero
    std::int64_t size;
    Results results;
    int threads;

    void add(std::int64_t begin, std::int64_t end, AnyTotal& total) const {
        for (std::int64_t at = begin; at < end; at += pieces.most_elements)
            pieces.add_row(a.as<std::byte>() + at * size, std::min(pieces.most_elements, end - at),
                           results.ending.mirror, total);
    }
    void store(std::int64_t result, std::int64_t stored, AnyTotal& total) const {
        if (static_cast<double>(stored) < results.ending.elements) pieces.merge(total, zero);
        pieces.store(results, result, total);
    }
};

/// A result of many entries, by all threads.
void reduce_long(const Job& job, std::int64_t result, std::int64_t begin, std::int64_t end) {
    const std::int64_t count = ceil_div(end - begin, kPieceEntries);
    std::vector<AnyTotal> totals(static_cast<std::size_t>(count));
    parallel_for(count, 1, job.threads, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
            AnyTotal& total = totals[static_cast<std::size_t>(i)];
            job.pieces.start(total);
            const std::int64_t from = begin + i * kPieceEntries;
            job.add(from, std::min(end, from + kPieceEntries), total);
        }
    });
    AnyTotal sum;
    job.pieces.start(sum);
    for (const AnyTotal& total : totals) job.pieces.merge(sum, total);
    job.store(result, end - begin, sum);
}

void reduce_rows(const Job& job) {
    const std::int64_t* const pointers = job.a.pointers;
    const std::int64_t rows = job.a.rows;
    const auto is_long = [&](std::int64_t row) { return pointers[row + 1] - pointers[row] > kPieceEntries; };
    const std::int64_t together = 1 + rows / (1 + job.a.entries / kPieceEntries);
    parallel_for(rows, std::min(together, kPieceEntries), job.threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                         if (is_long(i)) continue;
                         AnyTotal total;
                         job.pieces.start(total);
                         job.add(pointers[i], pointers[i + 1], total);
                         job.store(i, pointers[i + 1] - pointers[i], total);
                     }
                 });
    for (std::int64_t i = 0; i < rows; ++i)
        if (is_long(i)) reduce_long(job, i, pointers[i], pointers[i + 1]);
}

/// Shares of the entries for columns: as many as pay for their sums, whatever the number of threads.
std::int64_t shares_of(std::int64_t entries, std::int64_t columns) {
    constexpr std::int64_t kMostShares = 64;
    return std::clamp<std::int64_t>(entries / kPieceEntries / (1 + columns / (kPieceEntries / 8)), 1,
                                    kMostShares);
}

template <class A>
void reduce_columns(const Operand& a, const Results& results, int threads) {
    static_assert(sizeof(Column<A>) <= kColumnBytes);
    const std::int64_t shares = shares_of(a.entries, a.cols);
    std::vector<Column<A>> columns(static_cast<std::size_t>(shares * a.cols));
    parallel_for(shares, 1, threads, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i)
            add_to_columns<A>(a, a.entries / shares * i + std::min(i, a.entries % shares),
                              a.entries / shares * (i + 1) + std::min(i + 1, a.entries % shares),
                              results.ending.mirror, columns.data() + i * a.cols);
    });
    parallel_for(a.cols, kPieceEntries / 16, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) {
            Column<A>& sum = columns[static_cast<std::size_t>(j)];
            for (std::int64_t i = 1; i < shares; ++i)
                sum.take(columns[static_cast<std::size_t>(i * a.cols + j)]);
            store_column<A>(sum, j, results);
        }
    });
}

/// The total of one zero, which is as wide as any element.
AnyTotal total_of_zero(const Pieces& pieces, const Mirror& mirror) {
    constexpr std::byte kZero[16] = {};
    AnyTotal total;
    pieces.start(total);
    pieces.add_row(kZero, 1, mirror, total);
    return total;
}

}  // namespace

std::uint64_t rows_bytes(const Problem& problem, int) {
    if (axis_of(problem) != Axis::columns) return 0;
    const auto sums =
        saturating_multiply(static_cast<std::uint64_t>(shares_of(problem.entries.front(), problem.n)),
                            static_cast<std::uint64_t>(problem.n));
    return saturating_multiply(sums, kColumnBytes);
}

Launch prepare_rows(const Problem& problem, const Operands& operands, const Device& device) {
    const VectorWidth width = vector_width(problem);
    const Results results = results_of(problem, operands.c);
    const Pieces pieces = pieces_of(problem, width);
    const Job job = {.a = operands.a,
                     .pieces = pieces,
                     .zero = total_of_zero(pieces, results.ending.mirror),
                     .size = static_cast<std::int64_t>(size_of(problem.type)),
                     .results = results,
                     .threads = device.threads};
    const auto run = [job, problem](Stream) {
        if (axis_of(problem) == Axis::rows) return reduce_rows(job);
        if (axis_of(problem) == Axis::all) return reduce_long(job, 0, 0, job.a.entries);
        visit_accumulator(problem, [&]<class A>(A) { reduce_columns<A>(job.a, job.results, job.threads); });
    };
    return {.level = "rows", .run = run, .details = {{"vectors", std::string(name_of(width))}}};
}

}  // namespace gpumat::reduce::cpu::sparse
