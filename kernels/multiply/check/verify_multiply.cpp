#include "kernels/multiply/check/verify_multiply.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/multiply/check/product_check.hpp"
#include "kernels/multiply/check/product_in_blocks.hpp"
#include "kernels/multiply/check/row_check.hpp"
#include "kernels/multiply/check/verify_sparse.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kRowsAtOnce = 1 << 15;  // of C: their products with X are at most 25 MB

Operand panel_of_c(const Problem& p, const Operands& operands, std::int64_t first) {
    return rows_of(result_type(p), operands.c, first, std::min(kRowsAtOnce, p.m - first));
}

Verification check_in_full(const Problem& p, const Operands& operands, const VerifyOptions& options) {
    const RowCheck check(p, operands, options);
    Findings found;
    std::string note;
    bool coarse = false;
    for (std::int64_t first = 0; first < p.m; first += kRowsAtOnce) {
        const auto rows = result_rows(result_type(p), panel_of_c(p, operands, first), first);
        std::vector<char> wrong(rows.size());
        const Findings part = check.check(rows, wrong);
        coarse = coarse || check.too_coarse(rows, part, note);
        found.merge(part);
    }
    Verification result = verification_of("full", found);
    if (coarse) result.verdict = "failed";
    result.rows_recomputed = p.m;
    result.note = note;
    if (is_integer(p.type)) return result;
    const double root = found.root_mean_square();
    result.detects =
        Detects{found.tolerance, root > 0 ? found.tolerance / root : std::numeric_limits<double>::infinity()};
    if (found.value_squares > 0) {
        result.rms_error =
            std::sqrt(found.error_squares / found.value_squares) / check.bound().rounding().stored_roundoff();
    }
    return result;
}

Verification check_at_random(const Problem& p, const Operands& operands, const VerifyOptions& options) {
    ProductCheck check(p, operands, options);
    for (std::int64_t first = 0; first < p.m; first += kRowsAtOnce)
        check.take(first, panel_of_c(p, operands, first));
    return check.finish();
}

/// Rows whose inputs' part is computed before the result comes: some 16 numbers are kept of each.
constexpr std::int64_t kRowsAhead = 1 << 16;

/// Freivalds' check of a product.
class ProductPanels final : public ResultCheck {
  public:
    ProductPanels(const Problem& problem, const Operands& inputs, const VerifyOptions& how)
        : problem_(problem), inputs_(inputs), how_(how) {}

    [[nodiscard]] bool takes_panels() const override { return true; }

    void follow(const ResultCheck& before, const std::vector<bool>& same_by_role) override {
        const auto* other = dynamic_cast<const ProductPanels*>(&before);
        if (other != nullptr && other->check_) {
            check_.emplace(problem_, inputs_, how_,
                           PartBefore{.check = &*other->check_, .same_b = same_by_role[1]});
        }
    }

    void prepare(std::int64_t panel_rows) override {
        if (!check_) check_.emplace(problem_, inputs_, how_);
        for (std::int64_t first = 0; first < std::min(problem_.m, kRowsAhead); first += panel_rows)
            check_->expect(first, std::min(panel_rows, problem_.m - first));
    }

    void take(std::int64_t first, const Operand& panel) override {
        if (!check_) check_.emplace(problem_, inputs_, how_);
        check_->take(first, panel);
    }

    Verification finish() override { return check_->finish(); }

  private:
    Problem problem_;
    Operands inputs_;
    VerifyOptions how_;
    std::optional<ProductCheck> check_;
};

}  // namespace

bool checks_at_random(const Problem& asked, VerifyMode mode) {
    const Problem problem = as_read(asked);
    if (problem.m == 0 || problem.n == 0) return false;
    return mode == VerifyMode::freivalds ||
           (mode == VerifyMode::automatic && problem.flops() > kFullCheckFlops);
}

Verification verify_multiply(const Problem& asked, const Operands& operands, const VerifyOptions& options) {
    if (options.mode == VerifyMode::none) return {};
    if (asked.is_sparse()) return multiply::verify_sparse_product(asked, operands, options);
    const Problem problem = as_read(asked);
    // Without elements there may be any number of rows, and each mode finds the same.
    if (problem.m == 0 || problem.n == 0)
        return verification_of(options.mode == VerifyMode::freivalds ? "freivalds" : "full", {});
    return checks_at_random(problem, options.mode) ? check_at_random(problem, operands, options)
                                                   : check_in_full(problem, operands, options);
}

constinit const Check multiply::kCheck = {
    .verify = verify_multiply,
    // Freivalds' check keeps kFreivaldsRounds vectors. The full one takes a few MB whatever the shape.
    .bytes =
        [](const Problem& asked, VerifyMode mode) {
            if (asked.is_sparse()) return multiply::sparse_product_check_bytes(asked, mode);
            const Problem problem = as_read(asked);
            return checks_at_random(problem, mode) ? product_check_bytes(problem, kRowsAtOnce) : 0;
        },
    .panels = [](const Problem& problem, const Operands& inputs,
                 const VerifyOptions& how) -> std::unique_ptr<ResultCheck> {
        if (!checks_at_random(problem, how.mode)) return nullptr;
        return std::make_unique<ProductPanels>(problem, inputs, how);
    },
    .in_blocks = verify_product_in_blocks,
    .may_wrap = [](const Problem& problem) { return is_integer(problem.type); }};

}  // namespace gpumat
