// multiply of a sparse and a dense matrix, CPU level `rows`: the rows of C shared out among all threads.
//
// Since `serial`: as many cache misses at a time as there are cores. Each thread takes the next rows when it
// is free, so many that their products are worth it, and has sums of its own: a row is summed as by one
// thread. What limits it: rows of unlike lengths; one with most of the entries keeps a single thread busy.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"
#include "kernels/multiply/cpu/sparse/row_sums.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

/// Rows of which each share has some, and some shares for each thread.
std::int64_t rows_of_a_share(const Problem& p, int threads) {
    constexpr std::int64_t kMostRows = 1024;
    constexpr std::int64_t kShares = 8;  // of a thread
    return std::clamp<std::int64_t>(p.m / (kShares * threads), 1, kMostRows);
}

}  // namespace

Launch prepare_rows(const Problem& problem, const Operands& operands, const Device& device) {
    const auto plain = std::make_shared<PlainOperands>(problem, operands, device);
    return {.level = "rows", .run = [plain, threads = device.threads](Stream) {
                const Problem& p = plain->problem();
                const Operands& all = plain->make();
                visit_product(p, [&]<bool kShort, class T>() {
                    const RowSums<kShort, T> rows(p, all);
                    parallel_for(p.m, rows_of_a_share(p, threads), threads,
                                 [&](std::int64_t begin, std::int64_t end) {
                                     std::vector<Sum<T>> sums(static_cast<std::size_t>(p.n));
                                     for (std::int64_t i = begin; i < end; ++i) rows.row(i, sums.data());
                                 });
                });
            }};
}

}  // namespace gpumat::multiply::cpu::sparse
