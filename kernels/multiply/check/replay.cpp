#include "kernels/multiply/check/replay.hpp"

#include <algorithm>
#include <cmath>

#include "core/numbers/whole.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kStepsAtOnce = 64;

/// An order of additions: product k goes to sum k mod `lanes`, and the sums are added up after every `block`
/// products, to a total.
struct Order {
    std::int64_t lanes;
    std::int64_t block;
};

std::vector<Order> orders(std::int64_t steps) {
    std::vector<Order> list;
    for (std::int64_t lanes = 1; lanes <= 32; lanes *= 2) list.push_back({lanes, steps});
    for (std::int64_t parts = 2; parts <= 8; parts *= 2) list.push_back({1, ceil_div(steps, parts)});
    for (const std::int64_t block : {64, 256}) list.push_back({1, block});
    return list;
}

/// sum(j) += a·b(j)
template <class Number>
[[gnu::always_inline]] inline void add_step(std::int64_t cols, Number a, const Number* b,
                                            Number* __restrict sum) {
    for (std::int64_t j = 0; j < cols; ++j) sum[j] += a * b[j];
}

/// One row of a tile in one order, some products at a time.
template <class Number>
class RowInOrder {
  public:
    explicit RowInOrder(const Order& order)
        : order_(order), sums_(static_cast<std::size_t>(order.lanes * kTileCols)), total_(kTileCols) {}

    /// Adds products: `steps` factors of A, and rows of factors of B.
    void add(std::int64_t steps, std::int64_t cols, const Number* a, const Number* b) {
        for (std::int64_t s = 0; s < steps; ++s) {
            add_step(cols, a[s], b + s * kTileCols, sums_.data() + done_ % order_.lanes * kTileCols);
            ++done_;
            if (done_ % order_.block == 0) add_up();
        }
    }

    const std::vector<Number>& total() {
        add_up();
        return total_;
    }

  private:
    void add_up() {
        for (std::int64_t lane = 0; lane < order_.lanes; ++lane) {
            for (std::int64_t j = 0; j < kTileCols; ++j)
                total_[static_cast<std::size_t>(j)] += sums_[static_cast<std::size_t>(lane * kTileCols + j)];
        }
        std::fill(sums_.begin(), sums_.end(), Number{});
    }

    Order order_;
    std::int64_t done_ = 0;
    std::vector<Number> sums_;
    std::vector<Number> total_;
};

template <class Number, class T>
std::vector<double> largest_errors(const RealForm<T>& form, const TilePlace& place, const RealSums& sums) {
    const auto list = orders(form.steps());
    std::vector<RowInOrder<Number>> rows;
    for (std::size_t i = 0; i < place.rows.size(); ++i) {
        for (const Order& order : list) rows.emplace_back(order);
    }
    std::vector<Number> a(static_cast<std::size_t>(kTileRows * kStepsAtOnce));
    std::vector<Number> b(static_cast<std::size_t>(kStepsAtOnce * kTileCols));
    for (std::int64_t step = 0; step < form.steps(); step += kStepsAtOnce) {
        const std::int64_t steps = std::min(kStepsAtOnce, form.steps() - step);
        form.pack(place, step, steps, kStepsAtOnce, a.data(), b.data());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const auto row = static_cast<std::int64_t>(i / list.size());
            rows[i].add(steps, place.cols, a.data() + row * kStepsAtOnce, b.data());
        }
    }
    std::vector<double> errors(sums.sum.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto& total = rows[i].total();
        const std::size_t row = i / list.size() * static_cast<std::size_t>(kTileCols);
        for (std::size_t j = 0; j < static_cast<std::size_t>(place.cols); ++j) {
            const double error =
                std::fabs((static_cast<double>(total[j]) - sums.sum[row + j]) - sums.correction[row + j]);
            if (error > errors[row + j]) errors[row + j] = error;
        }
    }
    return errors;
}

}  // namespace

ReplayedErrors replay_tile(const Problem& problem, const Operands& operands, const TilePlace& place,
                           const FloatTile& sums) {
    ReplayedErrors errors;
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_integral_v<T>) {
            constexpr bool kWide = std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>;
            using Number = std::conditional_t<kWide, double, float>;
            errors.re = largest_errors<Number>(RealForm<T>(problem, operands, Part::re), place, sums.re);
            if constexpr (kIsComplex<T>)
                errors.im = largest_errors<Number>(RealForm<T>(problem, operands, Part::im), place, sums.im);
        }
    });
    return errors;
}

}  // namespace gpumat
