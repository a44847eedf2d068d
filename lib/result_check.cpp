#include "lib/result_check.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/product_check.hpp"
#include "lib/row_check.hpp"

namespace gpumat {
namespace {

/// Rows of a transpose against columns of its input, bit for bit.
class TransposePanels final : public ResultCheck {
  public:
    TransposePanels(const Problem& problem, const Operands& inputs, const VerifyOptions& how)
        : type_(problem.type), rows_(problem.m), in_(inputs.a), how_(how) {}

    [[nodiscard]] bool takes_panels() const override { return true; }

    void take(std::int64_t first, const Operand& panel) override {
        const MatrixView columns{type_,
                                 {rows_, panel.rows},
                                 in_.pitch,
                                 in_.as<std::byte>() + static_cast<std::size_t>(first) * size_of(type_)};
        const MatrixView rows{type_, {panel.rows, panel.cols}, panel.pitch, panel.as<std::byte>()};
        merge_part(all_, verify_transpose(columns, rows, how_), first, 0);
    }

    Verification finish() override { return std::move(all_); }

  private:
    Type type_;
    std::int64_t rows_;
    Operand in_;
    VerifyOptions how_;
    Verification all_;
};

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

bool is_worse(const WorstElement& x, double x_ratio, const WorstElement& y, double y_ratio) {
    if (x_ratio != y_ratio) return x_ratio > y_ratio;
    return x.row != y.row ? x.row < y.row : x.col < y.col;
}

}  // namespace

std::unique_ptr<ResultCheck> check_transpose_panels(const Problem& problem, const Operands& inputs,
                                                    const VerifyOptions& how) {
    if (problem.m == 0 || problem.n == 0) return nullptr;
    return std::make_unique<TransposePanels>(problem, inputs, how);
}

std::unique_ptr<ResultCheck> check_multiply_panels(const Problem& problem, const Operands& inputs,
                                                   const VerifyOptions& how) {
    if (!checks_at_random(problem, how.mode)) return nullptr;
    return std::make_unique<ProductPanels>(problem, inputs, how);
}

void merge_part(Verification& all, Verification part, std::int64_t row, std::int64_t col) {
    if (part.worst) {
        part.worst->row += row;
        part.worst->col += col;
    }
    if (all.mode == "none") {
        all = std::move(part);
        return;
    }
    if (part.failed()) all.verdict = "failed";
    if (part.worst &&
        (!all.worst || is_worse(*part.worst, part.expected_ratio, *all.worst, all.expected_ratio)))
        all.worst = std::move(part.worst);
    all.worst_ratio = std::max(all.worst_ratio, part.worst_ratio);
    all.expected_ratio = std::max(all.expected_ratio, part.expected_ratio);
    all.mismatches += part.mismatches;
    all.rows_recomputed += part.rows_recomputed;
    all.wrapped += part.wrapped;
    if (part.rms_error) all.rms_error = std::max(all.rms_error.value_or(0), *part.rms_error);
    if (part.detects && (!all.detects || part.detects->absolute > all.detects->absolute))
        all.detects = part.detects;
    if (all.note.empty()) all.note = std::move(part.note);
}

}  // namespace gpumat
