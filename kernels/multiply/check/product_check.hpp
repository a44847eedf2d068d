#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/numbers/matrix.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/multiply/check/verify_multiply.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

class ProductCheck;

/// What the check of a part takes over from that of the part before: B·X, where B is the same; and which
/// residuals were found right.
struct PartBefore {
    const ProductCheck* check = nullptr;  ///< of the same type and seed
    bool same_b = false;
};

/// Freivalds' randomized check of a multiply: C·X against α·op(A)·(op(B)·X) + β·D·X, row by row, for an n ×
/// kFreivaldsRounds matrix X of random numbers. It costs about kFreivaldsRounds operations an element of A,
/// B, C and D, instead of 2·M·N·K. Rows that stand out by their residuals, and some at random, are kept and
/// in the end computed again; these, element by element, decide. kernels/check/verification.md derives what
/// it detects.
///
/// What needs only the inputs can run while C is computed, and C may come in panels of rows:
///
///     ProductCheck check(problem, inputs, options);   // reads B
///     check.expect(first, count);                     // reads those rows of A and D; as often as wanted
///     check.take(first, panel);                       // once for each panel of C, in any order
///     const Verification result = check.finish();     // computes some rows again
///
/// `check.take` calls `expect` where that was not done for the same rows. A check is used by one thread at a
/// time. All functions throw Error{memory} where the work space cannot be had.
class ProductCheck {
  public:
    class Rows;

    /// A, B and D must stay as they are until `finish`; `inputs.c` is not used. Of parts of one product each
    /// gets the check of the one before it.
    ProductCheck(const Problem& problem, const Operands& inputs, const VerifyOptions& options,
                 const PartBefore& before = {});
    ProductCheck(const ProductCheck&) = delete;
    ProductCheck& operator=(const ProductCheck&) = delete;
    ~ProductCheck();

    /// The inputs' part for rows [first, first + count) of C. Keeps some 16 numbers for each row until
    /// `take`.
    void expect(std::int64_t first, std::int64_t count);

    /// Takes rows of C, from row `first` on. They are not needed afterwards.
    void take(std::int64_t first, const Operand& panel);

    /// After all rows.
    [[nodiscard]] Verification finish();

  private:
    Problem problem_;  // before rows_, which refers to it
    std::unique_ptr<Rows> rows_;
};

/// The same check where no matrix is in memory as a whole. Each comes in blocks, in the order of this list;
/// then some rows of C are compared, a range of columns after the other:
///
///     check.take(Factor::b, block, view);   // as often as there are blocks of B, then of A, D and C
///     check.compare(rows, col, part, operands, c);   // for rows of check.rows_to_compare()
///     const Verification result = check.finish();
class BlockProductCheck {
  public:
    enum class Factor { b, a, d, c };

    BlockProductCheck(const Problem& problem, const VerifyOptions& options);
    BlockProductCheck(const BlockProductCheck&) = delete;
    BlockProductCheck& operator=(const BlockProductCheck&) = delete;
    ~BlockProductCheck();

    /// A block of a matrix as it is stored. Not needed afterwards.
    void take(Factor factor, const Block& block, const MatrixView& elements);

    /// What the blocks until now gave for the factor: to be added to what others of several checks have,
    /// which took others, before blocks of the next factor come. Of floating-point and complex types.
    [[nodiscard]] std::vector<std::span<double>> sums(Factor factor);

    /// After all blocks: those in the sample, those that stand out, and those that residuals cannot judge, in
    /// order.
    [[nodiscard]] std::vector<std::int64_t> rows_to_compare();

    /// Compares elements of these rows with the reference, from column `col` on: `part` is the product of the
    /// rows of A alone and of these columns of B, with operands of its own; `c` has the same elements of C.
    void compare(std::span<const std::int64_t> rows, std::int64_t col, const Problem& part,
                 const Operands& operands, const Operand& c);

    [[nodiscard]] Verification finish();

  private:
    Problem problem_;  // before rows_, which refers to it
    std::unique_ptr<ProductCheck::Rows> rows_;
};

/// The work space in bytes of that, beside the blocks and the operands of rows that are compared.
std::uint64_t block_product_check_bytes(const Problem& problem);

/// The work space in bytes of a check that takes `rows` rows of C at a time.
std::uint64_t product_check_bytes(const Problem& problem, std::int64_t rows);

}  // namespace gpumat
