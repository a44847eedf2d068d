// multiply of sparse matrices, CPU level `expand`: expand a row, sort, compress.
//
// One thread writes all products of a row of C with their columns, sorts them by column, in their order, and
// adds those of a column. It does so once to count the entries and once to write them. Where a row has more
// products than twice its entries, they are compressed on the way, so that memory stays in proportion to the
// entries. What limits it: sorting products, most of which go into the sums of others.
//
// Source of the idea: expand, sort, compress (Bell, Dalton and Olson 2012), a row at a time.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/multiply/cpu/sparse/counted.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"
#include "kernels/multiply/cpu/sparse/row_products.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

template <bool kShort, class T>
class ExpandedRow {
  public:
    explicit ExpandedRow(const RowProducts<kShort, T>& rows) : rows_(rows) {}

    std::int64_t count(std::int64_t i) {
        gather(i);
        return static_cast<std::int64_t>(all_.size());
    }

    void fill(const MutableOperand& c, std::int64_t i) {
        gather(i);
        typename RowProducts<kShort, T>::Writer to(rows_, c, i);
        for (const auto& [column, sum] : all_) to.put(column, sum);
    }

  private:
    void gather(std::int64_t i) {
        constexpr std::size_t kLeast = 4096;
        all_.clear();
        std::size_t most = kLeast;
        rows_.template for_each_line<true>(i, [&](const auto& line) {
            for (std::int64_t at = line.first; at < line.last; ++at) {
                all_.emplace_back(line.columns[at], line.added_to({}, at));
                if (all_.size() < most) continue;
                compress();
                most = std::max(kLeast, 2 * all_.size());
            }
        });
        compress();
    }

    void compress() {
        std::stable_sort(all_.begin(), all_.end(),
                         [](const auto& x, const auto& y) { return x.first < y.first; });
        std::size_t to = 0;
        for (std::size_t at = 0; at < all_.size(); ++at) {
            if (to > 0 && all_[to - 1].first == all_[at].first)
                all_[to - 1].second += all_[at].second;
            else
                all_[to++] = all_[at];
        }
        all_.resize(to);
    }

    const RowProducts<kShort, T>& rows_;
    std::vector<std::pair<std::int64_t, Sum<T>>> all_;
};

}  // namespace

Launch prepare_expand(const Problem& problem, const Operands& operands, const Device& device) {
    const Device one{.threads = 1, .gpu = device.gpu};
    const auto plain = std::make_shared<PlainOperands>(problem, operands, one);
    return {
        .level = "expand", .run = [plain](Stream) {
            const Operands& all = plain->make();
            visit_product(plain->problem(), [&]<bool kShort, class T>() {
                const RowProducts<kShort, T> rows(plain->problem(), all);
                count_and_fill(all, {0, plain->problem().m}, 1, [&] { return ExpandedRow<kShort, T>(rows); });
            });
        }};
}

}  // namespace gpumat::multiply::cpu::sparse
