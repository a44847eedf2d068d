// multiply of sparse matrices, CPU level `hash`: a table of sums a row, on all threads.
//
// Since `expand`: products are added where they belong, and only the entries of the result are sorted, not
// all products. A table is filled twice, with columns to count the entries, and with sums to write them; it
// is as small as the row allows, so that most are in the first cache. Threads take the next rows when they
// are free. What limits it: a place to be found for each product, twice, and rows of many products, whose
// tables pass the cache.
//
// Source of the idea: hash accumulators (Nagasaka, Matsuoka, Azad and Buluç 2018).
#include <memory>

#include "kernels/multiply/cpu/sparse/counted.hpp"
#include "kernels/multiply/cpu/sparse/hash_row.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

constexpr std::int64_t kRowsOfAShare = 512;

template <bool kShort, class T>
class HashWorker {
  public:
    HashWorker(const RowProducts<kShort, T>& rows, std::int64_t n) : rows_(rows), row_(rows, n) {}

    std::int64_t count(std::int64_t i) { return row_.count(i, rows_.count(i)); }
    void fill(const MutableOperand& c, std::int64_t i) { row_.fill(c, i, rows_.count(i)); }

  private:
    const RowProducts<kShort, T>& rows_;
    HashRow<kShort, T> row_;
};

}  // namespace

Launch prepare_hash(const Problem& problem, const Operands& operands, const Device& device) {
    const auto plain = std::make_shared<PlainOperands>(problem, operands, device);
    return {.level = "hash", .run = [plain, threads = device.threads](Stream) {
                const Problem& p = plain->problem();
                const Operands& all = plain->make();
                visit_product(p, [&]<bool kShort, class T>() {
                    const RowProducts<kShort, T> rows(p, all);
                    count_and_fill(all, equal_shares(p.m, kRowsOfAShare), threads,
                                   [&] { return HashWorker<kShort, T>(rows, p.n); });
                });
            }};
}

}  // namespace gpumat::multiply::cpu::sparse
