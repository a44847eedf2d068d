#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/numbers/two_sum.hpp"
#include "kernels/check/elements.hpp"
#include "lib/matrices/compare_elements.hpp"
#include "lib/matrices/steps.hpp"

// One tile of two matrices in numbers of one type. For compare_elements.cpp alone, which compiles it for each
// instruction set.

namespace gpumat::comparison {

inline constexpr std::int64_t kTile = 256;  // elements that are compared at once, in the first cache
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The sign of the exact sum: the partial sums do not overlap, so that the last one has it (Shewchuk, 1997).
template <std::size_t N>
int sign_of_sum(const std::array<Wide, N>& terms) {
    std::array<Wide, N> partials{};
    std::size_t count = 0;
    for (Wide term : terms) {
        std::size_t kept = 0;
        for (std::size_t k = 0; k < count; ++k) {
            const Wide sum = term + partials[k];
            const Wide error = rounded_off(term, partials[k], sum);
            if (error != 0) partials[kept++] = error;
            term = sum;
        }
        if (term != 0) partials[kept++] = term;
        count = kept;
    }
    if (count == 0) return 0;
    return partials[count - 1] < 0 ? -1 : 1;
}

/// Whether |x - y| <= absolute + relative * max(|x|, |y|), for finite numbers.
inline bool is_within(const Tolerance& tolerance, Wide x, Wide y) {
    const Wide size = std::max(std::abs(x), std::abs(y));
    const Wide distance = std::abs(x - y);
    const Wide product = tolerance.relative * size;
    const Wide limit = tolerance.absolute + product;
    constexpr Wide kRounding = 0x1p-60L;  // more than the roundings of both sides
    if (std::abs(distance - limit) > kRounding * limit) return distance < limit;
    const Wide error = std::fma(Wide{tolerance.relative}, size, -product);
    return sign_of_sum(
               std::array{std::max(x, y), -std::min(x, y), -Wide{tolerance.absolute}, -product, -error}) <= 0;
}

/// Some elements as real and imaginary parts. Those of real matrices beside each other have no imaginary
/// ones.
template <class W>
struct Parts {
    alignas(64) std::array<W, kTile> re;
    alignas(64) std::array<W, kTile> im;
};

template <class W>
void widen(Type type, const std::byte* from, std::int64_t count, bool complex, Parts<W>& parts) {
    const auto size = static_cast<std::size_t>(count);
    visit_type(type, [&]<class T>(TypeTag<T>) {
        const auto* values = reinterpret_cast<const T*>(from);
        for (std::size_t i = 0; i < size; ++i) {
            if constexpr (kIsComplex<T>) {
                parts.re[i] = static_cast<W>(values[i].real());
                parts.im[i] = static_cast<W>(values[i].imag());
            } else if constexpr (std::is_arithmetic_v<T>) {
                parts.re[i] = static_cast<W>(values[i]);
            } else {
                parts.re[i] = static_cast<float>(values[i]);
            }
        }
    });
    if (complex && !is_complex(type)) std::fill_n(parts.im.begin(), size, W{0});
}

inline ExactValue exact_value(Type type, const std::byte* from, std::int64_t index) {
    return visit_type(type, [&]<class T>(TypeTag<T>) -> ExactValue {
        const T value = reinterpret_cast<const T*>(from)[index];
        if constexpr (kIsComplex<T>) {
            return std::complex<double>(value);
        } else if constexpr (std::is_integral_v<T>) {
            return static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value);
        } else {
            return static_cast<double>(value);
        }
    });
}

template <class W>
W modulus_of(W re, W im) {
    return im == 0 ? std::abs(re) : std::hypot(re, im);
}

inline bool before(const Difference& a, const Difference& b) {
    return a.row != b.row ? a.row < b.row : a.col < b.col;
}

inline void take_larger(std::optional<Difference>& largest, double old_size, const Difference& found,
                        double size) {
    if (std::isnan(size)) return;
    if (!largest || size > old_size || (size == old_size && before(found, *largest))) largest = found;
}

inline void take_larger(ElementFindings& findings, const Difference& found) {
    auto& absolute = findings.largest_absolute;
    auto& relative = findings.largest_relative;
    auto& ulps = findings.largest_ulps;
    take_larger(absolute, absolute ? absolute->absolute : 0, found, found.absolute);
    take_larger(relative, relative ? relative->relative : 0, found, found.relative);
    if (found.ulps) take_larger(ulps, ulps ? *ulps->ulps : 0, found, *found.ulps);
}

/// The sums of squares of doubles between these magnitudes are exact but for rounding.
inline constexpr double kSmallestSquared = 0x1p-480;
inline constexpr double kLargestSquared = 0x1p+480;

inline constexpr std::size_t kLanes =
    8;  // sums and maxima that go on beside each other, for the vector registers

template <class W>
W largest_of(const std::array<W, kTile>& values, std::size_t count) {
    std::array<W, kLanes> largest{};
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane)
            largest[lane] = std::max(largest[lane], values[i + lane]);
    }
    for (; i < count; ++i) largest[0] = std::max(largest[0], values[i]);
    return *std::max_element(largest.begin(), largest.end());
}

inline double sum_of(const std::array<double, kTile>& values, std::size_t count) {
    std::array<double, kLanes> sums{};
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane];
    }
    for (; i < count; ++i) sums[0] += values[i];
    double sum = 0;
    for (const double part : sums) sum += part;
    return sum;
}

template <class W>
W sum_of_squares(const std::array<W, kTile>& values, std::size_t count) {
    std::array<W, kLanes> sums{};
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane] * values[i + lane];
    }
    for (; i < count; ++i) sums[0] += values[i] * values[i];
    W sum = 0;
    for (const W part : sums) sum += part;
    return sum;
}

/// The sums of the first `count` magnitudes. The sum of squares is not finite where one of them is not.
template <class W>
Norms norms_of(const std::array<W, kTile>& magnitudes, std::size_t count) {
    const W largest = largest_of(magnitudes, count);
    Wide squares = 0;
    if (largest > kLargestSquared || (largest < kSmallestSquared && largest != 0)) {
        for (std::size_t i = 0; i < count; ++i) squares += Wide{magnitudes[i]} * Wide{magnitudes[i]};
    } else {
        squares = sum_of_squares(magnitudes, count);
    }
    return {static_cast<double>(largest), squares};
}

/// What a tile is: where its elements are, and where they belong.
struct Tile {
    const std::byte* x;
    const std::byte* y;
    std::int64_t count;
    const Block& block;
    std::int64_t first;  ///< in the block
    std::uint8_t* mask;
};

/// Compares the elements of a tile as numbers of type W.
template <class W>
class TileComparison {
  public:
    TileComparison(Type x, Type y, const Tolerance& tolerance, std::size_t most_listed, const Tile& tile,
                   ElementFindings& findings)
        : x_type_(x),
          y_type_(y),
          complex_(is_complex(x) || is_complex(y)),
          stepping_(stepping_of(part_of(x), part_of(y))),
          precision_(coarser_precision(part_of(x), part_of(y))),
          tolerance_(tolerance),
          most_listed_(most_listed),
          tile_(tile),
          findings_(findings) {
        widen(x, tile.x, tile.count, complex_, x_);
        widen(y, tile.y, tile.count, complex_, y_);
        if (findings.largest_absolute) absolute_ = findings.largest_absolute->absolute;
        if (findings.largest_relative) relative_ = findings.largest_relative->relative;
        if (findings.largest_ulps) ulps_ = *findings.largest_ulps->ulps;
    }

    void run() {
        measure();
        if (finish_at_once()) return;
        for (std::size_t i = 0; i < size(); ++i) {
            if (!(x_size_[i] < kInfinity && y_size_[i] < kInfinity)) {
                take_special(i);
                x_size_[i] = y_size_[i] = distance_[i] = 0;  // no part of the norms
            } else if (distance_[i] != 0) {
                take_finite(i);
            }
        }
        findings_.x.add(norms_of(x_size_, size()));
        findings_.y.add(norms_of(y_size_, size()));
        findings_.difference.add(norms_of(distance_, size()));
    }

  private:
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(tile_.count); }

    /// The moduli of all elements and of their differences.
    void measure() {
        if (complex_) {
            for (std::size_t i = 0; i < size(); ++i) {
                x_size_[i] = modulus_of(x_.re[i], x_.im[i]);
                y_size_[i] = modulus_of(y_.re[i], y_.im[i]);
                distance_[i] = modulus_of(x_.re[i] - y_.re[i], x_.im[i] - y_.im[i]);
            }
        } else {
            for (std::size_t i = 0; i < size(); ++i) {
                x_size_[i] = std::abs(x_.re[i]);
                y_size_[i] = std::abs(y_.re[i]);
                distance_[i] = std::abs(x_.re[i] - y_.re[i]);
            }
        }
    }

    /// In most tiles of real numbers that differ, all are finite, each agrees or differs beyond the roundings
    /// of double, and none is among the largest: they are counted without a look at each. False, and nothing
    /// done, for other tiles.
    bool finish_at_once() {
        if constexpr (std::is_same_v<W, double>) {
            if (complex_) return false;
            const Norms x = norms_of(x_size_, size());
            const Norms y = norms_of(y_size_, size());
            const Norms difference = norms_of(distance_, size());
            if (!std::isfinite(x.squares + y.squares + difference.squares)) return false;
            if (difference.largest > 0 && !count_unequal(difference.largest)) return false;
            findings_.x.add(x);
            findings_.y.add(y);
            findings_.difference.add(difference);
            return true;
        } else {
            return false;
        }
    }

    /// Counts the elements of a tile that differ, where none needs a look. False, and nothing done, where one
    /// does.
    bool count_unequal(double largest_distance) {
        judge();
        const double differing = sum_of(differs_, size());
        if (largest_of(differs_, size()) == kUnsure || largest_distance > absolute_ ||
            largest_of(apart_, size()) > relative_ || largest_of(steps_, size()) > ulps_ ||
            (differing > 0 && findings_.first.size() < most_listed_))
            return false;
        findings_.unequal += static_cast<std::int64_t>(sum_of(unequal_, size()));
        findings_.differing += static_cast<std::int64_t>(differing);
        if (tile_.mask != nullptr)
            std::transform(differs_.begin(), differs_.begin() + tile_.count, tile_.mask,
                           [](double differs) { return static_cast<std::uint8_t>(differs); });
        return true;
    }

    /// Fills what is known of each pair of finite real numbers, in loops for the vector registers.
    void judge() {
        count_steps();
        const double most_steps = tolerance_.ulps ? static_cast<double>(*tolerance_.ulps) : -1;
        const double absolute = tolerance_.absolute;
        const double relative = tolerance_.relative;
        const std::size_t count = size();
        for (std::size_t i = 0; i < count; ++i) {  // selects alone, which the vector registers have
            const double distance = distance_[i];
            const double larger = std::max(x_size_[i], y_size_[i]);
            const double limit = absolute + relative * larger;
            const double inexact = limit > kNormal ? 0.0 : limit;  // 0 is exact
            double differs = distance < limit * (1 - kRounding) ? 0.0 : kUnsure;
            differs = distance > limit * (1 + kRounding) ? 1.0 : differs;
            differs = inexact > 0 ? kUnsure : differs;
            differs = limit < kInfinity ? differs : kUnsure;
            differs = steps_[i] <= most_steps ? 0.0 : differs;
            differs_[i] = distance > 0 ? differs : 0.0;
            unequal_[i] = distance > 0 ? 1.0 : 0.0;
            apart_[i] = distance / std::max(larger, std::numeric_limits<double>::denorm_min());
        }
    }

    void count_steps() {
        if (stepping_ == Stepping::integers) {
            std::copy_n(distance_.begin(), size(), steps_.begin());
        } else if (stepping_ == Stepping::single_bits) {
            count_steps<float, std::int32_t>();
        } else if (stepping_ == Stepping::double_bits) {
            count_steps<double, std::int64_t>();
        } else {
            count_steps_in_proportion();
        }
    }
    template <class Float, class Bits>
    void count_steps() {
        for (std::size_t i = 0; i < size(); ++i)
            steps_[i] =
                steps_between<Float, Bits>(static_cast<Float>(x_.re[i]), static_cast<Float>(y_.re[i]));
    }

    /// Counts between normal numbers of one sign in the same binade or in neighbouring ones; infinite for
    /// others that differ.
    void count_steps_in_proportion() {
        constexpr std::uint64_t kExponent = std::uint64_t{0x7ff} << 52;
        const double of_a_step = std::ldexp(1.0, 1 - precision_.digits);
        constexpr int kNoUnderflow = -960;  // of half a step
        const double smallest = std::ldexp(1.0, std::max(precision_.smallest_exponent, kNoUnderflow));
        const std::size_t count = size();
        for (std::size_t i = 0; i < count; ++i) {
            const double high = std::max(x_size_[i], y_size_[i]);
            const double low = std::min(x_size_[i], y_size_[i]);
            const double binade = std::bit_cast<double>(std::bit_cast<std::uint64_t>(high) & kExponent);
            const double edge = std::max(binade, smallest);
            const double above = (std::max(high, edge) - std::max(low, edge)) / (edge * of_a_step);
            const double below = (std::min(high, edge) - std::min(low, edge)) / (edge * of_a_step * 0.5);
            // Sums, as the vector registers do not choose between what may raise an exception.
            const double unknown = distance_[i] > 0 ? kInfinity : 0.0;
            const double far = low >= edge * 0.5 ? 0.0 : unknown;
            const double subnormal = binade >= smallest ? 0.0 : unknown;
            const double other_sign = distance_[i] <= high ? 0.0 : unknown;
            steps_[i] = above + below + (far + subnormal + other_sign);
        }
    }

    [[nodiscard]] double ulps_between(std::size_t i) const {
        const double real = part_ulps(x_.re[i], y_.re[i]);
        return complex_ ? std::max(real, part_ulps(x_.im[i], y_.im[i])) : real;
    }

    [[nodiscard]] double part_ulps(W x, W y) const {
        switch (stepping_) {
            case Stepping::integers:
                return static_cast<double>(std::abs(x - y));
            case Stepping::single_bits:
                return steps_between<float, std::int32_t>(static_cast<float>(x), static_cast<float>(y));
            case Stepping::double_bits:
                return steps_between<double, std::int64_t>(static_cast<double>(x), static_cast<double>(y));
            case Stepping::in_proportion:
                break;
        }
        if (x == y) return 0;
        if constexpr (std::is_same_v<W, double>) {
            if (const auto steps = steps_in_a_binade(x, y, precision_)) return *steps;
        }
        return static_cast<double>(Steps(precision_).between(x, y));
    }

    /// Whether finite elements are within the tolerance: in W where its roundings cannot decide.
    [[nodiscard]] bool within(std::size_t i, W size) const {
        const W limit = static_cast<W>(tolerance_.absolute) + static_cast<W>(tolerance_.relative) * size;
        const W distance = distance_[i];
        if (distance < kInfinity && limit < kInfinity && (limit == 0 || limit > kNormal)) {
            if (distance > limit * (1 + kRounding)) return false;
            if (distance < limit * (1 - kRounding)) return true;
        }
        const Wide x_im = complex_ ? x_.im[i] : 0;
        const Wide y_im = complex_ ? y_.im[i] : 0;
        if (x_im == 0 && y_im == 0) return is_within(tolerance_, x_.re[i], y_.re[i]);
        return modulus_of(Wide{x_.re[i]} - Wide{y_.re[i]}, x_im - y_im) <=
               tolerance_.absolute + Wide{tolerance_.relative} * Wide{size};
    }

    /// Finite elements that are not equal.
    void take_finite(std::size_t i) {
        const W size = std::max(x_size_[i], y_size_[i]);
        const double ulps = ulps_between(i);
        const bool agree =
            within(i, size) || (tolerance_.ulps && ulps <= static_cast<double>(*tolerance_.ulps));
        // A distance that passes the range of double is no more than twice the size.
        const W relative = distance_[i] < kInfinity ? distance_[i] / size
                                                    : modulus_of(x_.re[i] / size - y_.re[i] / size, W{0});
        take(i, agree, static_cast<double>(distance_[i]), static_cast<double>(relative), ulps);
    }

    [[nodiscard]] bool same_part(W x, W y) const {
        return x == y || (tolerance_.nan_equal && std::isnan(x) && std::isnan(y));
    }

    /// Elements of which one has an infinite or NaN part.
    void take_special(std::size_t i) {
        const auto is_nan = [&](const Parts<W>& parts) {
            return std::isnan(parts.re[i]) || (complex_ && std::isnan(parts.im[i]));
        };
        const auto is_infinite = [&](const Parts<W>& parts) {
            return std::isinf(parts.re[i]) || (complex_ && std::isinf(parts.im[i]));
        };
        const bool x_nan = is_nan(x_);
        const bool y_nan = is_nan(y_);
        findings_.nans_x += x_nan ? 1 : 0;
        findings_.nans_y += y_nan ? 1 : 0;
        findings_.nans_both += x_nan && y_nan ? 1 : 0;
        findings_.infinities_x += is_infinite(x_) ? 1 : 0;
        findings_.infinities_y += is_infinite(y_) ? 1 : 0;
        if (same_part(x_.re[i], y_.re[i]) && (!complex_ || same_part(x_.im[i], y_.im[i]))) return;
        const double apart = x_nan || y_nan ? std::numeric_limits<double>::quiet_NaN() : kInfinity;
        take(i, false, apart, apart, {});
    }

    void take(std::size_t i, bool agree, double absolute, double relative, std::optional<double> ulps) {
        ++findings_.unequal;
        if (!agree) {
            ++findings_.differing;
            if (tile_.mask != nullptr) tile_.mask[i] = 1;
        }
        const bool listed = !agree && findings_.first.size() < most_listed_;
        const bool larger = absolute > absolute_ || relative > relative_ || (ulps && *ulps > ulps_);
        if (listed || larger) note(i, listed, {.absolute = absolute, .relative = relative, .ulps = ulps});
    }

    void note(std::size_t i, bool listed, Difference found) {
        const std::int64_t index = tile_.first + static_cast<std::int64_t>(i);
        found.row = tile_.block.row + index / tile_.block.cols;
        found.col = tile_.block.col + index % tile_.block.cols;
        found.x = exact_value(x_type_, tile_.x, static_cast<std::int64_t>(i));
        found.y = exact_value(y_type_, tile_.y, static_cast<std::int64_t>(i));
        if (listed) findings_.first.push_back(found);
        take_larger(findings_, found);
        absolute_ = std::max(absolute_, found.absolute);  // as it was beside NaN
        relative_ = std::max(relative_, found.relative);
        if (found.ulps) ulps_ = std::max(ulps_, *found.ulps);
    }

    static constexpr double kRounding = 0x1p-50;  // more than that of a limit and of a modulus
    static constexpr double kNormal = 0x1p-900;   // from here on no product loses digits
    static constexpr double kUnsure = 2;

    Type x_type_;
    Type y_type_;
    bool complex_;
    Stepping stepping_;
    Precision precision_;
    const Tolerance& tolerance_;
    std::size_t most_listed_;
    const Tile& tile_;
    ElementFindings& findings_;
    double absolute_ = -1;  ///< the largest differences so far
    double relative_ = -1;
    double ulps_ = -1;
    Parts<W> x_;
    Parts<W> y_;
    alignas(64) std::array<W, kTile> x_size_;
    alignas(64) std::array<W, kTile> y_size_;
    alignas(64) std::array<W, kTile> distance_;
    // What judge() works in.
    alignas(64) std::array<double, kTile> steps_;
    alignas(64) std::array<double, kTile> apart_;    ///< the relative difference
    alignas(64) std::array<double, kTile> unequal_;  ///< 1 or 0
    alignas(64) std::array<double, kTile> differs_;  ///< 1, 0 or kUnsure
};

}  // namespace gpumat::comparison
