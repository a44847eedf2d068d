#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/multiply/check/freivalds.hpp"
#include "kernels/multiply/check/product_check.hpp"
#include "kernels/multiply/check/row_check.hpp"

namespace gpumat {

/// Rows that are kept because they stand out the most.
inline constexpr std::size_t kKeptRows = 8;
/// Rows computed again at random, at most.
inline constexpr double kMostSample = 16;

/// A copy of a row of C.
struct KeptRow {
    std::int64_t row;
    double ratio;
    std::vector<std::byte> elements;
};

/// X, B·X and the two sides of the residuals where the matrices come in blocks.
template <class Products>
struct BlockProducts {
    Products b_x;
    Products right;
    Products left;
};

/// What checks of integers and of other types have in common: which rows are kept and computed again.
class ProductCheck::Rows {
  public:
    Rows(const Problem& problem, const Operands& inputs, const VerifyOptions& options, const Rows* before);
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
    virtual ~Rows() = default;

    using Factor = BlockProductCheck::Factor;

    virtual void expect(std::int64_t first, std::int64_t count) = 0;
    virtual void take(std::int64_t first, const Operand& panel) = 0;
    virtual Verification finish() = 0;

    // Where the matrices come in blocks.
    virtual void take_block(Factor factor, const Block& block, const RowsOf& elements) = 0;
    virtual std::vector<std::span<double>> sums(Factor /*factor*/) { return {}; }
    virtual std::vector<std::int64_t> rows_to_compare() = 0;
    virtual Verification finish_compared() = 0;

    /// BlockProductCheck::compare.
    void compare_columns(std::span<const std::int64_t> numbers, std::int64_t col, const Problem& part,
                         const Operands& operands, const Operand& c);

  protected:
    [[nodiscard]] const Problem& problem() const { return problem_; }
    [[nodiscard]] const Operands& inputs() const { return inputs_; }
    [[nodiscard]] int threads() const { return options_.threads; }
    [[nodiscard]] const RowCheck& check() const { return check_; }
    [[nodiscard]] const std::vector<KeptRow>& standing_out() const { return top_; }

    /// Keeps the rows of a panel that are in the sample.
    void keep_sample(std::int64_t first, const Operand& panel);

    /// Keeps a row where it stands out more than others that are kept.
    void keep_if_standing_out(std::int64_t row, double ratio, std::int64_t first, const Operand& panel);

    /// Compares rows at once.
    void check_now(const std::vector<std::int64_t>& numbers, std::int64_t first, const Operand& panel);

    /// So many of the rows that stand out, those that stand out the most, the sample, and others: in order.
    [[nodiscard]] std::vector<std::int64_t> with_sample(std::size_t standing_out,
                                                        std::vector<std::int64_t> others) const;

    /// Compares so many of the rows that stand out. Of a part now and then also the sample, and those that
    /// stand out the most; these two also where all of a part stands out from those before it.
    void check_kept(std::size_t standing_out, std::optional<double> median);

    [[nodiscard]] const Findings& found() const { return found_; }

    /// The report; `mismatches` are the rows that the residuals give away.
    [[nodiscard]] Verification report(std::int64_t mismatches) const;

  private:
    /// The parts that are done.
    struct Done {
        std::int64_t count = 0;
        /// At most, and the least, of the residuals of those found right.
        double median = std::numeric_limits<double>::infinity();
    };

    [[nodiscard]] bool is_chosen(std::int64_t part) const;
    [[nodiscard]] KeptRow copy(std::int64_t row, double ratio, std::int64_t first,
                               const Operand& panel) const;
    void compare(std::span<const ResultRow> rows);

    const Problem& problem_;
    Operands inputs_;
    VerifyOptions options_;
    RowCheck check_;
    std::vector<std::int64_t> sample_;
    std::shared_ptr<Done> done_;  // one for all parts
    std::vector<KeptRow> kept_;
    std::vector<KeptRow> top_;  // by falling ratio
    Findings found_;
    std::int64_t wrong_rows_ = 0;
    std::set<std::int64_t> wrong_numbers_;  // where columns are compared one after the other
    std::int64_t recomputed_ = 0;
    bool too_coarse_ = false;
    std::string note_;
};

/// `before` is of a problem of the same type, and `same_b` says that B is that of it.
std::unique_ptr<ProductCheck::Rows> float_rows(const Problem& problem, const Operands& inputs,
                                               const VerifyOptions& options, const ProductCheck::Rows* before,
                                               bool same_b);
std::unique_ptr<ProductCheck::Rows> integer_rows(const Problem& problem, const Operands& inputs,
                                                 const VerifyOptions& options,
                                                 const ProductCheck::Rows* before, bool same_b);

/// For operands that come in blocks.
std::unique_ptr<ProductCheck::Rows> float_rows(const Problem& problem, const VerifyOptions& options);
std::unique_ptr<ProductCheck::Rows> integer_rows(const Problem& problem, const VerifyOptions& options);

}  // namespace gpumat
