#include "kernels/multiply/check/product_rows.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/check/elements.hpp"

namespace gpumat {
namespace {

/// Rows that stand out and belong to a sample.
constexpr std::size_t kAlwaysRecomputed = 2;

/// At least so many of the parts of a result get a sample.
constexpr std::int64_t kSampledParts = 16;

/// A part is suspected where the median of its residuals is surely larger than that of a part found right,
/// beyond the factor of 1.19 by which its histogram rounds.
constexpr double kPartStandsOut = 1.2;

/// Four times the relative standard deviation of the median of so many residuals, each of 16 squares:
/// 0.45/√n.
double spread_of_median(std::int64_t rows) {
    return std::min(0.9, 1.8 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, rows))));
}

/// Rows computed again at random: for as many operations as a millisecond or so of a level takes.
constexpr double kSampleFlops = 0x1p30;
constexpr double kLeastSample = 2;

/// Rows to compute again: the first, the last, and others at random. In order.
std::vector<std::int64_t> sample(const Problem& p, std::uint64_t seed) {
    const double flops_of_row = std::max(1.0, p.flops()) / static_cast<double>(p.m);
    const auto most =
        static_cast<std::size_t>(std::clamp(kSampleFlops / flops_of_row, kLeastSample, kMostSample));
    std::mt19937_64 random(~seed);
    std::vector<std::int64_t> rows = {0, p.m - 1};
    while (rows.size() < most)
        rows.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.m)));
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
}

}  // namespace

ProductCheck::Rows::Rows(const Problem& problem, const Operands& inputs, const VerifyOptions& options,
                         const Rows* before)
    : problem_(problem),
      inputs_(inputs),
      options_(options),
      check_(problem_, inputs, options),
      sample_(sample(problem_, options.seed)),
      done_(before != nullptr ? before->done_ : std::make_shared<Done>()) {}

void ProductCheck::Rows::compare_columns(std::span<const std::int64_t> numbers, std::int64_t col,
                                         const Problem& part, const Operands& operands, const Operand& c) {
    const RowCheck check(part, operands, options_);
    const std::vector<ResultRow> list = result_rows(result_type(part), c, 0);
    std::vector<char> wrong(list.size());
    Findings found = check.check(list, wrong);
    too_coarse_ = check.too_coarse(list, found, note_) || too_coarse_;
    if (found.worst) {
        found.worst->row = numbers[static_cast<std::size_t>(found.worst->row)];
        found.worst->col += col;
    }
    found_.merge(found);
    for (std::size_t i = 0; i < wrong.size(); ++i)
        if (wrong[i] != 0) wrong_numbers_.insert(numbers[i]);
    wrong_rows_ = std::ssize(wrong_numbers_);
    if (col == 0) recomputed_ += std::ssize(numbers);
}

void ProductCheck::Rows::keep_sample(std::int64_t first, const Operand& panel) {
    for (auto row = std::lower_bound(sample_.begin(), sample_.end(), first);
         row != sample_.end() && *row < first + panel.rows; ++row)
        kept_.push_back(copy(*row, 0, first, panel));
}

void ProductCheck::Rows::keep_if_standing_out(std::int64_t row, double ratio, std::int64_t first,
                                              const Operand& panel) {
    if (top_.size() == kKeptRows && ratio <= top_.back().ratio) return;
    if (top_.size() == kKeptRows) top_.pop_back();
    const auto place =
        std::find_if(top_.begin(), top_.end(), [&](const KeptRow& x) { return x.ratio < ratio; });
    top_.insert(place, copy(row, ratio, first, panel));
}

void ProductCheck::Rows::check_now(const std::vector<std::int64_t>& numbers, std::int64_t first,
                                   const Operand& panel) {
    std::vector<ResultRow> list;
    for (const std::int64_t row : numbers)
        list.push_back({row, row_of(result_type(problem_), panel, row - first)});
    compare(list);
}

std::vector<std::int64_t> ProductCheck::Rows::with_sample(std::size_t standing_out,
                                                          std::vector<std::int64_t> others) const {
    others.insert(others.end(), sample_.begin(), sample_.end());
    const std::size_t count = std::min(std::max(standing_out, kAlwaysRecomputed), top_.size());
    for (std::size_t i = 0; i < count; ++i) others.push_back(top_[i].row);
    std::ranges::sort(others);
    others.erase(std::unique(others.begin(), others.end()), others.end());
    return others;
}

void ProductCheck::Rows::check_kept(std::size_t standing_out, std::optional<double> median) {
    const double spread = spread_of_median(problem_.m);
    const bool with_sample = is_chosen(done_->count++) || !median;
    const bool suspected = median && *median / (1 + spread) > kPartStandsOut * done_->median;
    std::vector<ResultRow> list;
    if (with_sample || suspected) standing_out = std::max(standing_out, kAlwaysRecomputed);
    if (with_sample) {
        for (const KeptRow& row : kept_) list.push_back({row.row, row.elements.data()});
    }
    for (std::size_t i = 0; i < std::min(standing_out, top_.size()); ++i) {
        const bool listed = with_sample && std::binary_search(sample_.begin(), sample_.end(), top_[i].row);
        if (!listed) list.push_back({top_[i].row, top_[i].elements.data()});
    }
    compare(list);
    too_coarse_ = check_.too_coarse(list, found_, note_);
    if ((with_sample || suspected) && wrong_rows_ == 0 && !too_coarse_)
        done_->median =
            std::min(done_->median, median.value_or(std::numeric_limits<double>::infinity()) / (1 - spread));
}

Verification ProductCheck::Rows::report(std::int64_t mismatches) const {
    Verification result = verification_of("freivalds", found_);
    const bool failed = wrong_rows_ > 0 || too_coarse_ || (is_integer(problem_.type) && mismatches > 0);
    result.verdict = failed ? "failed" : "passed";
    result.mismatches = failed ? std::max(mismatches, wrong_rows_) : 0;
    result.rows_recomputed = recomputed_;
    result.note = note_;
    return result;
}

/// The first part, the last, and one in each stretch of some, at random: parts lie in a grid.
bool ProductCheck::Rows::is_chosen(std::int64_t part) const {
    const std::int64_t stretch = std::max<std::int64_t>(1, options_.parts / kSampledParts);
    std::mt19937_64 random(options_.seed + static_cast<std::uint64_t>(part / stretch));
    const auto place = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(stretch));
    return part == 0 || part + 1 == options_.parts || part % stretch == place;
}

KeptRow ProductCheck::Rows::copy(std::int64_t row, double ratio, std::int64_t first,
                                 const Operand& panel) const {
    if (panel.data == nullptr) return {row, ratio, {}};  // it is read again
    const Type type = result_type(problem_);
    const std::byte* from = row_of(type, panel, row - first);
    return {row, ratio, {from, from + static_cast<std::size_t>(problem_.n) * size_of(type)}};
}

void ProductCheck::Rows::compare(std::span<const ResultRow> rows) {
    std::vector<char> wrong(rows.size());
    found_.merge(check_.check(rows, wrong));
    wrong_rows_ += std::count(wrong.begin(), wrong.end(), 1);
    recomputed_ += std::ssize(rows);
}

}  // namespace gpumat
