#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "kernels/multiply/check/product_rows.hpp"

namespace gpumat {
namespace {

constexpr auto kRounds = static_cast<std::size_t>(kFreivaldsRounds);

/// A row stands out where the energy of its residual, relative to what is expected, is more than so many
/// times the median of all rows. For 16 normal numbers the probability is 3e−7.
constexpr double kStandsOut = 4;

/// A row whose residual is so much larger than expected in any case counts as wrong in a result that failed.
constexpr double kSurelyWrong = 9;

/// Counts positive numbers by their size, in a quarter of an octave, for their median.
class Histogram {
  public:
    void add(double value) {
        ++count_;
        if (value > 0) ++bins_[index(value)];
    }

    /// The upper end of the median's bin; 0 where half of the numbers are 0.
    [[nodiscard]] double median() const {
        std::int64_t above = 0;
        for (std::size_t i = bins_.size(); i-- > 0;) {
            above += bins_[i];
            if (2 * above >= count_ && above > 0)
                return std::exp2((static_cast<double>(i) + 1) / 4 - kLowest);
        }
        return 0;
    }

  private:
    static constexpr double kLowest =
        512;  // 2^−512 and less fall into the first bin, 2^512 and more into the last

    static std::size_t index(double value) {
        const double place = std::floor(4 * (std::log2(value) + kLowest));
        return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)));
    }

    static constexpr std::size_t kBins = 4096;
    std::array<std::int64_t, kBins> bins_{};
    std::int64_t count_ = 0;
};

/// Floating-point and complex types.
class FloatRows final : public ProductCheck::Rows {
  public:
    FloatRows(const Problem& p, const Operands& inputs, const VerifyOptions& options, const Rows* before,
              bool same_b)
        : Rows(p, inputs, options, before),
          scalars_(p),
          x_(random_signs(p.n, options.seed)),
          b_x_(same_b ? static_cast<const FloatRows*>(before)->b_x_
                      : std::make_shared<const SignProducts>(
                            times(rows_of_b(p, inputs), x_, Squares::plain, options.threads))) {}

    /// For operands that come in blocks.
    FloatRows(const Problem& p, const VerifyOptions& options)
        : Rows(p, {}, options, nullptr), scalars_(p), x_(random_signs(p.n, options.seed)) {
        const bool complex = is_complex(p.type);
        blocks_ = {SignProducts(p.k, complex), SignProducts(p.m, complex), SignProducts(p.m, complex)};
        blocks_.b_x.squares.resize(static_cast<std::size_t>(p.k));
        blocks_.right.squares.resize(static_cast<std::size_t>(p.m));
    }

    void take_block(Factor factor, const Block& block, const RowsOf& elements) override {
        const SignProducts& x = factor == Factor::a ? blocks_.b_x : x_;
        const Squares squares = factor == Factor::a   ? Squares::weighted
                                : factor == Factor::b ? Squares::plain
                                                      : Squares::none;
        const SignProducts part = times(elements, rows_of(x, block.col, block.cols), squares, threads());
        const std::complex<double> scale = factor == Factor::a   ? scalars_.alpha
                                           : factor == Factor::d ? scalars_.beta
                                                                 : 1.0;
        SignProducts& to = products_of(factor);
        const auto first = static_cast<std::size_t>(block.row);
        for (std::size_t at = 0; at < part.re.size(); ++at) {
            const auto value = scale * at_of(part, at);
            to.re[first * kRounds + at] += value.real();
            if (!to.im.empty()) to.im[first * kRounds + at] += value.imag();
        }
        for (std::size_t i = 0; i < part.squares.size(); ++i) to.squares[first + i] += part.squares[i];
    }

    std::vector<std::span<double>> sums(Factor factor) override {
        SignProducts& products = products_of(factor);
        return {products.re, products.im, products.squares};
    }

    std::vector<std::int64_t> rows_to_compare() override {
        std::vector<std::int64_t> unjudged;
        for (std::int64_t row = 0; row < problem().m; ++row) {
            if (!judge(blocks_.left, blocks_.right, row, 0, {})) unjudged.push_back(row);
        }
        unjudged_ = std::ssize(unjudged);
        return with_sample(count_standing(), std::move(unjudged));
    }

    Verification finish_compared() override { return judged(); }

    void expect(std::int64_t first, std::int64_t count) override {
        const Problem& p = problem();
        SignProducts right = times(rows_of_a(p, inputs(), first, count), *b_x_, Squares::weighted, threads());
        const SignProducts added =
            p.beta.is_zero(p.type)
                ? SignProducts(count, is_complex(p.type))
                : times(rows_of_panel(p.type, gpumat::rows_of(p.type, inputs().d, first, count)), x_,
                        Squares::none, threads());
        for (std::size_t at = 0; at < right.re.size(); ++at) {
            const auto value = scalars_.alpha * at_of(right, at) + scalars_.beta * at_of(added, at);
            right.re[at] = value.real();
            if (!right.im.empty()) right.im[at] = value.imag();
        }
        expected_[first] = std::move(right);
    }

    void take(std::int64_t first, const Operand& panel) override {
        const std::int64_t count = panel.rows;
        const auto found = expected_.find(first);
        if (found == expected_.end() || std::ssize(found->second.squares) != count) expect(first, count);
        const SignProducts right = std::move(expected_[first]);
        expected_.erase(first);
        const SignProducts left = times(rows_of_panel(problem().type, panel), x_, Squares::none, threads());
        std::vector<std::int64_t> unjudged;
        for (std::int64_t i = 0; i < count; ++i) {
            if (!judge(left, right, i, first, panel)) unjudged.push_back(first + i);
        }
        unjudged_ += std::ssize(unjudged);
        if (!unjudged.empty()) check_now(unjudged, first, panel);
        keep_sample(first, panel);
    }

    Verification finish() override {
        check_kept(count_standing(), ratios_.median());
        return judged();
    }

  private:
    [[nodiscard]] SignProducts& products_of(Factor factor) {
        return factor == Factor::b ? blocks_.b_x : factor == Factor::c ? blocks_.left : blocks_.right;
    }

    /// How many of the rows that are kept stand out.
    [[nodiscard]] std::size_t count_standing() const {
        const double limit = kStandsOut * ratios_.median();
        return static_cast<std::size_t>(
            std::ranges::count_if(standing_out(), [&](const KeptRow& row) { return row.ratio > limit; }));
    }

    [[nodiscard]] Verification judged() const {
        // Where more rows stand out than are kept, only one that stands out more than these was noticed.
        double limit = kStandsOut * ratios_.median();
        if (count_standing() == kKeptRows) limit = std::max(limit, standing_out().back().ratio);
        Verification result = report(surely_wrong_);
        note_measures(result, limit);
        if (unjudged_ > 0 && result.note.empty()) {
            result.note = std::to_string(unjudged_) +
                          " rows hold values that are not finite, or whose squares pass the range of double; "
                          "they were checked in full";
        }
        return result;
    }

    /// Rows [first, first + count) of X or B·X.
    static SignProducts rows_of(const SignProducts& x, std::int64_t first, std::int64_t count) {
        const auto part = [&](const std::vector<double>& all, std::size_t each) {
            if (all.empty()) return std::vector<double>();
            const auto begin =
                all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * each);
            return std::vector<double>(
                begin, begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(count) * each));
        };
        SignProducts found;
        found.re = part(x.re, kRounds);
        found.im = part(x.im, kRounds);
        found.squares = part(x.squares, 1);
        return found;
    }

    static std::complex<double> at_of(const SignProducts& products, std::size_t at) {
        return {products.re[at], products.im.empty() ? 0.0 : products.im[at]};
    }

    /// The residual of row first + i; false where it cannot be judged.
    bool judge(const SignProducts& left, const SignProducts& right, std::int64_t i, std::int64_t first,
               const Operand& panel) {
        double energy = 0;
        double values = 0;
        bool exact = true;  // squares of small residuals vanish
        for (std::size_t r = 0; r < kRounds; ++r) {
            const std::size_t at = static_cast<std::size_t>(i) * kRounds + r;
            const std::complex<double> residual = at_of(left, at) - at_of(right, at);
            exact = exact && residual == 0.0;
            energy += std::norm(residual);
            values += std::norm(at_of(right, at));
        }
        values /= kFreivaldsRounds;  // an estimate of Σ|c|² over the row, for the signs are independent
        const double expected = expected_energy(values, right.squares[static_cast<std::size_t>(i)]);
        if (exact) {
            all_values_ += values;
            ratios_.add(0);
            return std::isfinite(values);
        }
        constexpr double kSmallest = std::numeric_limits<double>::min() * 0x1p60;
        if (!std::isfinite(energy) || !std::isfinite(expected) || expected < kSmallest) return false;
        const double ratio = energy / expected;
        ratios_.add(ratio);
        all_values_ += values;
        largest_expected_ = std::max(largest_expected_, expected);
        if (ratio > kSurelyWrong) ++surely_wrong_;
        keep_if_standing_out(first + i, ratio, first, panel);
        return true;
    }

    /// What rounding makes of a row's residual: Σ over the rounds and, with independent signs, over the row
    /// of the squares of the elements' expected errors. `squares` is Σ_k |a_ik|²·Σ_j |b_kj|².
    [[nodiscard]] double expected_energy(double values, double squares) const {
        const Rounding& rounding = check().bound().rounding();
        const double k = scalars_.steps;
        const double u = rounding.sum_roundoff;
        const double alpha = std::norm(scalars_.alpha);
        const double operands = 2 * rounding.operand_roundoff * rounding.operand_roundoff * alpha * squares;
        const double sums = u * u * ((k / 3 + 4) * values + alpha * (k / 6 + 1) * squares);
        const double stored = rounding.output_roundoff * rounding.output_roundoff * values;
        const double evaluation = 0x1p-106 * (k + static_cast<double>(problem().n)) / 64 * values;
        return kFreivaldsRounds * (sums + stored + operands + evaluation);
    }

    void note_measures(Verification& result, double limit) const {
        const double elements = static_cast<double>(problem().m) * static_cast<double>(problem().n);
        const double mean = all_values_ > 0 ? std::sqrt(all_values_ / elements) : found().root_mean_square();
        // An error e changes the residuals by e in each round: a norm of 4e, which must stand out from noise
        // of at most the limit, and raise it beyond the limit.
        const double of_row = std::sqrt(limit * largest_expected_) / 2;
        const double absolute = std::max(of_row, found().tolerance);
        result.detects =
            Detects{absolute, mean > 0 ? absolute / mean : std::numeric_limits<double>::infinity()};
        const double roundoff = check().bound().rounding().stored_roundoff();
        if (found().value_squares > 0)
            result.rms_error = std::sqrt(found().error_squares / found().value_squares) / roundoff;
    }

    ReferenceScalars scalars_;
    SignProducts x_;
    std::shared_ptr<const SignProducts> b_x_;
    std::map<std::int64_t, SignProducts> expected_;  // by first row
    BlockProducts<SignProducts> blocks_;
    Histogram ratios_;
    double all_values_ = 0;
    double largest_expected_ = 0;
    std::int64_t surely_wrong_ = 0;
    std::int64_t unjudged_ = 0;
};
}  // namespace

std::unique_ptr<ProductCheck::Rows> float_rows(const Problem& problem, const Operands& inputs,
                                               const VerifyOptions& options, const ProductCheck::Rows* before,
                                               bool same_b) {
    return std::make_unique<FloatRows>(problem, inputs, options, before, same_b);
}

std::unique_ptr<ProductCheck::Rows> float_rows(const Problem& problem, const VerifyOptions& options) {
    return std::make_unique<FloatRows>(problem, options);
}

}  // namespace gpumat
