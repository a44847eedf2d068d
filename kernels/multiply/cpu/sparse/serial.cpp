// multiply of a sparse and a dense matrix, CPU level `serial`: row by row on one thread.
//
// A row of C gathers its sums in memory: of a sparse A, each entry adds its multiple of a row of B to it; of
// a sparse B, each element of the row of A adds its multiple of a row of B's entries, each to the sum of its
// column. Per entry and column it reads an element of B and reads and writes a sum. What limits it: the cache
// misses on rows of B, one after the other, on one core; and all of a sparse B again for every row of A.
//
// Source of the idea: the row-wise product (Gustavson 1978).
#include <memory>
#include <vector>

#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"
#include "kernels/multiply/cpu/sparse/row_sums.hpp"

namespace gpumat::multiply::cpu::sparse {

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device) {
    const Device one{.threads = 1, .gpu = device.gpu};
    const auto plain = std::make_shared<PlainOperands>(problem, operands, one);
    return {.level = "serial", .run = [plain](Stream) {
                const Problem& p = plain->problem();
                const Operands& all = plain->make();
                visit_product(p, [&]<bool kShort, class T>() {
                    const RowSums<kShort, T> rows(p, all);
                    std::vector<Sum<T>> sums(static_cast<std::size_t>(p.n));
                    for (std::int64_t i = 0; i < p.m; ++i) rows.row(i, sums.data());
                });
            }};
}

}  // namespace gpumat::multiply::cpu::sparse
