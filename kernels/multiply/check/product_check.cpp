#include "kernels/multiply/check/product_check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "kernels/check/elements.hpp"
#include "kernels/multiply/check/freivalds.hpp"
#include "kernels/multiply/check/row_check.hpp"

namespace gpumat {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kRounds = static_cast<std::size_t>(kFreivaldsRounds);

/// Rows that are kept because they stand out the most, and those of them that belong to a sample.
constexpr std::size_t kKeptRows = 8;
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

/// A row stands out where the energy of its residual, relative to what is expected, is more than so many
/// times the median of all rows. For 16 normal numbers the probability is 3e−7.
constexpr double kStandsOut = 4;

/// A row whose residual is so much larger than expected in any case counts as wrong in a result that failed.
constexpr double kSurelyWrong = 9;

/// Rows computed again at random: for as many operations as a millisecond or so of a level takes.
constexpr double kSampleFlops = 0x1p30;
constexpr double kLeastSample = 2;
constexpr double kMostSample = 16;

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

/// Copies of rows of C.
struct KeptRow {
    std::int64_t row;
    double ratio;
    std::vector<std::byte> elements;
};

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

/// What checks of integers and of other types have in common: which rows are kept and computed again.
class ProductCheck::Rows {
  public:
    Rows(const Problem& problem, const Operands& inputs, const VerifyOptions& options, const Rows* before)
        : problem_(problem),
          inputs_(inputs),
          threads_(options.threads),
          options_(options),
          check_(problem_, inputs, options),
          sample_(sample(problem_, options.seed)),
          parts_(options.parts),
          seed_(options.seed),
          done_(before != nullptr ? before->done_ : std::make_shared<Done>()) {}
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
    virtual ~Rows() = default;

    using Factor = BlockProductCheck::Factor;

    virtual void expect(std::int64_t first, std::int64_t count) = 0;
    virtual void take(std::int64_t first, const Operand& panel) = 0;
    virtual Verification finish() = 0;

    // Where the matrices come in blocks.
    virtual void take_block(Factor factor, const Block& block, const RowsOf& elements) = 0;
    virtual std::vector<std::int64_t> rows_to_compare() = 0;
    virtual Verification finish_compared() = 0;

    void compare_columns(std::span<const std::int64_t> numbers, std::int64_t col, const Problem& part,
                         const Operands& operands, const Operand& c) {
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

  protected:
    [[nodiscard]] const Problem& problem() const { return problem_; }
    [[nodiscard]] const Operands& inputs() const { return inputs_; }
    [[nodiscard]] int threads() const { return threads_; }
    [[nodiscard]] const RowCheck& check() const { return check_; }
    [[nodiscard]] const std::vector<KeptRow>& standing_out() const { return top_; }

    /// Keeps the rows of a panel that are in the sample.
    void keep_sample(std::int64_t first, const Operand& panel) {
        for (auto row = std::lower_bound(sample_.begin(), sample_.end(), first);
             row != sample_.end() && *row < first + panel.rows; ++row)
            kept_.push_back(copy(*row, 0, first, panel));
    }

    /// Keeps a row where it stands out more than others that are kept.
    void keep_if_standing_out(std::int64_t row, double ratio, std::int64_t first, const Operand& panel) {
        if (top_.size() == kKeptRows && ratio <= top_.back().ratio) return;
        if (top_.size() == kKeptRows) top_.pop_back();
        const auto place =
            std::find_if(top_.begin(), top_.end(), [&](const KeptRow& x) { return x.ratio < ratio; });
        top_.insert(place, copy(row, ratio, first, panel));
    }

    /// Compares rows at once.
    void check_now(const std::vector<std::int64_t>& numbers, std::int64_t first, const Operand& panel) {
        std::vector<ResultRow> list;
        for (const std::int64_t row : numbers)
            list.push_back({row, row_of(result_type(problem_), panel, row - first)});
        compare(list);
    }

    /// So many of the rows that stand out, those that stand out the most, the sample, and others: in order.
    [[nodiscard]] std::vector<std::int64_t> with_sample(std::size_t standing_out,
                                                        std::vector<std::int64_t> others) const {
        others.insert(others.end(), sample_.begin(), sample_.end());
        const std::size_t count = std::min(std::max(standing_out, kAlwaysRecomputed), top_.size());
        for (std::size_t i = 0; i < count; ++i) others.push_back(top_[i].row);
        std::ranges::sort(others);
        others.erase(std::unique(others.begin(), others.end()), others.end());
        return others;
    }

    /// Compares so many of the rows that stand out. Of a part now and then also the sample, and those that
    /// stand out the most; these two also where all of a part stands out from those before it.
    void check_kept(std::size_t standing_out, std::optional<double> median) {
        const double spread = spread_of_median(problem_.m);
        const bool with_sample = is_chosen(done_->count++) || !median;
        const bool suspected = median && *median / (1 + spread) > kPartStandsOut * done_->median;
        std::vector<ResultRow> list;
        if (with_sample || suspected) standing_out = std::max(standing_out, kAlwaysRecomputed);
        if (with_sample) {
            for (const KeptRow& row : kept_) list.push_back({row.row, row.elements.data()});
        }
        for (std::size_t i = 0; i < std::min(standing_out, top_.size()); ++i) {
            const bool listed =
                with_sample && std::binary_search(sample_.begin(), sample_.end(), top_[i].row);
            if (!listed) list.push_back({top_[i].row, top_[i].elements.data()});
        }
        compare(list);
        too_coarse_ = check_.too_coarse(list, found_, note_);
        if ((with_sample || suspected) && wrong_rows_ == 0 && !too_coarse_)
            done_->median = std::min(done_->median, median.value_or(kInfinity) / (1 - spread));
    }

    [[nodiscard]] const Findings& found() const { return found_; }

    /// The report; `mismatches` are the rows that the residuals give away.
    [[nodiscard]] Verification report(std::int64_t mismatches) const {
        Verification result = verification_of("freivalds", found_);
        const bool failed = wrong_rows_ > 0 || too_coarse_ || (is_integer(problem_.type) && mismatches > 0);
        result.verdict = failed ? "failed" : "passed";
        result.mismatches = failed ? std::max(mismatches, wrong_rows_) : 0;
        result.rows_recomputed = recomputed_;
        result.note = note_;
        return result;
    }

  private:
    /// The parts that are done.
    struct Done {
        std::int64_t count = 0;
        double median = kInfinity;  ///< at most, and the least, of the residuals of those found right
    };

    /// The first part, the last, and one in each stretch of some, at random: parts lie in a grid.
    [[nodiscard]] bool is_chosen(std::int64_t part) const {
        const std::int64_t stretch = std::max<std::int64_t>(1, parts_ / kSampledParts);
        std::mt19937_64 random(seed_ + static_cast<std::uint64_t>(part / stretch));
        const auto place = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(stretch));
        return part == 0 || part + 1 == parts_ || part % stretch == place;
    }

    [[nodiscard]] KeptRow copy(std::int64_t row, double ratio, std::int64_t first,
                               const Operand& panel) const {
        if (panel.data == nullptr) return {row, ratio, {}};  // it is read again
        const Type type = result_type(problem_);
        const std::byte* from = row_of(type, panel, row - first);
        return {row, ratio, {from, from + static_cast<std::size_t>(problem_.n) * size_of(type)}};
    }

    void compare(std::span<const ResultRow> rows) {
        std::vector<char> wrong(rows.size());
        found_.merge(check_.check(rows, wrong));
        wrong_rows_ += std::count(wrong.begin(), wrong.end(), 1);
        recomputed_ += std::ssize(rows);
    }

    const Problem& problem_;
    Operands inputs_;
    int threads_;
    VerifyOptions options_;
    RowCheck check_;
    std::vector<std::int64_t> sample_;
    std::int64_t parts_;
    std::uint64_t seed_;
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

namespace {

/// X, B·X and the two sides of the residuals where the matrices come in blocks.
template <class Products>
struct BlockProducts {
    Products b_x;
    Products right;
    Products left;
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
        SignProducts& to = factor == Factor::b   ? blocks_.b_x
                           : factor == Factor::c ? blocks_.left
                                                 : blocks_.right;
        const auto first = static_cast<std::size_t>(block.row);
        for (std::size_t at = 0; at < part.re.size(); ++at) {
            const auto value = scale * at_of(part, at);
            to.re[first * kRounds + at] += value.real();
            if (!to.im.empty()) to.im[first * kRounds + at] += value.imag();
        }
        for (std::size_t i = 0; i < part.squares.size(); ++i) to.squares[first + i] += part.squares[i];
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
        result.detects = Detects{absolute, mean > 0 ? absolute / mean : kInfinity};
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
            keep_if_standing_out(first + i, kInfinity, first, panel);
        }
    }

    IntegerProducts x_;
    std::shared_ptr<const IntegerProducts> b_x_;
    std::map<std::int64_t, IntegerProducts> expected_;
    BlockProducts<IntegerProducts> blocks_;
    std::int64_t wrong_ = 0;
};

/// `before` is of a problem of the same type.
std::unique_ptr<ProductCheck::Rows> make_rows(const Problem& p, const Operands& inputs,
                                              const VerifyOptions& options, const ProductCheck::Rows* before,
                                              bool same_b) {
    if (is_integer(p.type)) return std::make_unique<IntegerRows>(p, inputs, options, before, same_b);
    return std::make_unique<FloatRows>(p, inputs, options, before, same_b);
}

}  // namespace

ProductCheck::ProductCheck(const Problem& problem, const Operands& inputs, const VerifyOptions& options,
                           const PartBefore& before)
    : problem_(as_read(problem)),
      rows_(make_rows(problem_, inputs, options,
                      before.check != nullptr ? before.check->rows_.get() : nullptr, before.same_b)) {}

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
    : problem_(as_read(problem)) {
    if (is_integer(problem_.type)) {
        rows_ = std::make_unique<IntegerRows>(problem_, options);
    } else {
        rows_ = std::make_unique<FloatRows>(problem_, options);
    }
}

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
