#include "kernels/multiply/check/product_check.hpp"

#include <algorithm>

#include "kernels/multiply/check/product_rows.hpp"

namespace gpumat {

ProductCheck::ProductCheck(const Problem& problem, const Operands& inputs, const VerifyOptions& options,
                           const PartBefore& before)
    : problem_(as_read(problem)) {
    const Rows* rows = before.check != nullptr ? before.check->rows_.get() : nullptr;
    rows_ = is_integer(problem_.type) ? integer_rows(problem_, inputs, options, rows, before.same_b)
                                      : float_rows(problem_, inputs, options, rows, before.same_b);
}

ProductCheck::~ProductCheck() = default;

void ProductCheck::expect(std::int64_t first, std::int64_t count) {
    rows_->expect(first, count);
}

void ProductCheck::take(std::int64_t first, const Operand& panel) {
    rows_->take(first, panel);
}

Verification ProductCheck::finish() {
    return rows_->finish();
}

BlockProductCheck::BlockProductCheck(const Problem& problem, const VerifyOptions& options)
    : problem_(as_read(problem)),
      rows_(is_integer(problem_.type) ? integer_rows(problem_, options) : float_rows(problem_, options)) {}

BlockProductCheck::~BlockProductCheck() = default;

void BlockProductCheck::take(Factor factor, const Block& block, const MatrixView& elements) {
    if (block.rows == 0 || block.cols == 0) return;
    const bool transposed = factor == Factor::a   ? problem_.transpose_a
                            : factor == Factor::b ? problem_.transpose_b
                                                  : false;
    const Block used = transposed ? Block{block.col, block.row, block.cols, block.rows} : block;
    rows_->take_block(factor, used,
                      {elements.type, elements.data, used.rows, used.cols, transposed ? 1 : elements.ld,
                       transposed ? elements.ld : 1});
}

std::vector<std::span<double>> BlockProductCheck::sums(Factor factor) {
    return rows_->sums(factor);
}

std::vector<std::int64_t> BlockProductCheck::rows_to_compare() {
    return rows_->rows_to_compare();
}

void BlockProductCheck::compare(std::span<const std::int64_t> rows, std::int64_t col, const Problem& part,
                                const Operands& operands, const Operand& c) {
    rows_->compare_columns(rows, col, part, operands, c);
}

Verification BlockProductCheck::finish() {
    return rows_->finish_compared();
}

std::uint64_t block_product_check_bytes(const Problem& asked) {
    const Problem problem = as_read(asked);
    // In double, as product_check_bytes; and what a block of each matrix gives.
    constexpr double kX = kFreivaldsRounds * sizeof(double);
    const double product = (is_complex(problem.type) ? 2 : 1) * kX + 2 * sizeof(double);
    const double longest = static_cast<double>(std::max({problem.m, problem.n, problem.k}));
    const double bytes =
        static_cast<double>(problem.n) * kX +
        (static_cast<double>(problem.k) + 2 * static_cast<double>(problem.m) + 2 * longest) * product;
    return static_cast<std::uint64_t>(std::min(bytes, 0x1p62));
}

std::uint64_t product_check_bytes(const Problem& problem, std::int64_t rows) {
    // In double, and not beyond what sums can take, for the extents may be anything. X has real numbers, the
    // other products two a round for complex elements, and a sum of squares.
    constexpr double kX = kFreivaldsRounds * sizeof(double);
    constexpr double kProduct = 2 * kX + sizeof(double);
    const auto n = static_cast<double>(problem.n);
    const double products =
        n * kX +
        (static_cast<double>(problem.k) + 3 * static_cast<double>(std::min(problem.m, rows))) * kProduct;
    const double kept = (kMostSample + kKeptRows) * n * static_cast<double>(size_of(result_type(problem)));
    return static_cast<std::uint64_t>(std::min(products + kept, 0x1p62));
}

}  // namespace gpumat
