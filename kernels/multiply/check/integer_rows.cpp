#include <algorithm>
#include <limits>
#include <map>

#include "kernels/multiply/check/product_rows.hpp"

namespace gpumat {
namespace {

constexpr auto kRounds = static_cast<std::size_t>(kFreivaldsRounds);

/// Integers, exactly.
class IntegerRows final : public ProductCheck::Rows {
  public:
    IntegerRows(const Problem& p, const Operands& inputs, const VerifyOptions& options, const Rows* before,
                bool same_b)
        : Rows(p, inputs, options, before),
          x_(random_integers(p.n, options.seed)),
          b_x_(same_b ? static_cast<const IntegerRows*>(before)->b_x_
                      : std::make_shared<const IntegerProducts>(
                            times(rows_of_b(p, inputs), x_, options.threads))) {}

    /// For operands that come in blocks.
    IntegerRows(const Problem& p, const VerifyOptions& options)
        : Rows(p, {}, options, nullptr), x_(random_integers(p.n, options.seed)) {
        const auto products = [](std::int64_t rows) {
            return IntegerProducts(static_cast<std::size_t>(rows) * kRounds);
        };
        blocks_ = {products(p.k), products(p.m), products(p.m)};
    }

    void take_block(Factor factor, const Block& block, const RowsOf& elements) override {
        const IntegerProducts& x = factor == Factor::a ? blocks_.b_x : x_;
        const auto begin = x.begin() + block.col * kFreivaldsRounds;
        const IntegerProducts part =
            times(elements, IntegerProducts(begin, begin + block.cols * kFreivaldsRounds), threads());
        const std::uint64_t scale = factor == Factor::a ? static_cast<std::uint64_t>(problem().alpha.integer)
                                    : factor == Factor::d ? static_cast<std::uint64_t>(problem().beta.integer)
                                                          : 1;
        IntegerProducts& to = factor == Factor::b   ? blocks_.b_x
                              : factor == Factor::c ? blocks_.left
                                                    : blocks_.right;
        for (std::size_t at = 0; at < part.size(); ++at)
            to[static_cast<std::size_t>(block.row) * kRounds + at] += scale * part[at];
    }

    std::vector<std::int64_t> rows_to_compare() override {
        find_wrong(blocks_.left, blocks_.right, 0, {.rows = problem().m});
        return with_sample(kKeptRows, {});
    }

    Verification finish_compared() override { return report(wrong_); }

    void expect(std::int64_t first, std::int64_t count) override {
        const Problem& p = problem();
        IntegerProducts right = times(rows_of_a(p, inputs(), first, count), *b_x_, threads());
        const auto alpha = static_cast<std::uint64_t>(p.alpha.integer);
        const auto beta = static_cast<std::uint64_t>(p.beta.integer);
        for (std::uint64_t& value : right) value *= alpha;
        if (!p.beta.is_zero(p.type)) {
            const IntegerProducts added = times(
                rows_of_panel(p.type, gpumat::rows_of(p.type, inputs().d, first, count)), x_, threads());
            for (std::size_t at = 0; at < right.size(); ++at) right[at] += beta * added[at];
        }
        expected_[first] = std::move(right);
    }

    void take(std::int64_t first, const Operand& panel) override {
        const std::int64_t count = panel.rows;
        const auto found = expected_.find(first);
        if (found == expected_.end() || found->second.size() != static_cast<std::size_t>(count) * kRounds)
            expect(first, count);
        const IntegerProducts right = std::move(expected_[first]);
        expected_.erase(first);
        const IntegerProducts left = times(rows_of_panel(result_type(problem()), panel), x_, threads());
        find_wrong(left, right, first, panel);
        keep_sample(first, panel);
    }

    Verification finish() override {
        check_kept(kKeptRows, {});  // a sample of every part tells what does not fit into the type
        return report(wrong_);
    }

  private:
    /// Rows of a panel whose residuals are not zero.
    void find_wrong(const IntegerProducts& left, const IntegerProducts& right, std::int64_t first,
                    const Operand& panel) {
        const int unused_bits = 64 - 8 * static_cast<int>(size_of(result_type(problem())));
        for (std::int64_t i = 0; i < panel.rows; ++i) {
            const auto begin = static_cast<std::size_t>(i) * kRounds;
            const bool differs =
                std::mismatch(left.begin() + static_cast<std::ptrdiff_t>(begin),
                              left.begin() + static_cast<std::ptrdiff_t>(begin + kRounds),
                              right.begin() + static_cast<std::ptrdiff_t>(begin),
                              [&](std::uint64_t x, std::uint64_t y) { return (x - y) << unused_bits == 0; })
                    .first != left.begin() + static_cast<std::ptrdiff_t>(begin + kRounds);
            if (!differs) continue;
            ++wrong_;
            keep_if_standing_out(first + i, std::numeric_limits<double>::infinity(), first, panel);
        }
    }

    IntegerProducts x_;
    std::shared_ptr<const IntegerProducts> b_x_;
    std::map<std::int64_t, IntegerProducts> expected_;
    BlockProducts<IntegerProducts> blocks_;
    std::int64_t wrong_ = 0;
};
}  // namespace

std::unique_ptr<ProductCheck::Rows> integer_rows(const Problem& problem, const Operands& inputs,
                                                 const VerifyOptions& options,
                                                 const ProductCheck::Rows* before, bool same_b) {
    return std::make_unique<IntegerRows>(problem, inputs, options, before, same_b);
}

std::unique_ptr<ProductCheck::Rows> integer_rows(const Problem& problem, const VerifyOptions& options) {
    return std::make_unique<IntegerRows>(problem, options);
}

}  // namespace gpumat
