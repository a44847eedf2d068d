// multiply of a sparse and a dense matrix, CPU level `merge`: pieces of as many rows and entries together.
//
// Since `rows`: no thread has more to do than another, whatever the lengths of rows. A row with more entries
// than a piece is cut, and the sums of its parts are added in their order when all are there; pieces depend
// on the matrix alone, so that any number of threads gives the same sums. What limits it: a load and a store
// of a sum in memory for each product, and the cache misses on rows of B, each waited for.
//
// Source of the idea: merge-based sparse products (Merrill and Garland 2016), cut at rows where they are
// short.
#include <memory>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/pieces.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"
#include "kernels/multiply/cpu/sparse/row_sums.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

template <bool kShort, class T>
void multiply_pieces(const Problem& p, const Operands& operands, int threads) {
    const RowSums<kShort, T> rows(p, operands);
    const Pieces pieces = pieces_of(operands.a);
    Parts<T> parts(pieces, p.n);
    parallel_for(static_cast<std::int64_t>(pieces.pieces.size()), 1, threads,
                 [&](std::int64_t begin, std::int64_t) {
                     const Piece& piece = pieces.pieces[static_cast<std::size_t>(begin)];
                     if (piece.part >= 0) return rows.add(piece.first, piece.last, parts.sums(piece.part));
                     std::vector<Sum<T>> sums(static_cast<std::size_t>(p.n));
                     for (std::int64_t i = piece.begin; i < piece.end; ++i) rows.row(i, sums.data());
                 });
    parts.join([&](std::int64_t row, const Sum<T>* sums) { rows.finish(row, sums); });
}

}  // namespace

Launch prepare_merge(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.k == 0) {
        Launch launch = prepare_rows(problem, operands, device);
        launch.level = "merge";
        return launch;
    }
    const auto plain = std::make_shared<PlainOperands>(problem, operands, device);
    return {.level = "merge", .run = [plain, threads = device.threads](Stream) {
                const Operands& all = plain->make();
                visit_product(plain->problem(), [&]<bool kShort, class T>() {
                    multiply_pieces<kShort, T>(plain->problem(), all, threads);
                });
            }};
}

}  // namespace gpumat::multiply::cpu::sparse
