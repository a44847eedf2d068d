#pragma once

#include <cmath>
#include <complex>
#include <concepts>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/numbers/two_sum.hpp"
#include "core/numbers/type.hpp"

namespace gpumat {

/// An exact value lies between two neighbouring numbers; this gives the one whose last bit is 1. `nearest` is
/// the one that the value was rounded to, and the value lies `above` it or below. Rounding the result again,
/// to at least two bits less, gives what rounding the value itself gives (Boldo and Melquiond 2008).
template <std::floating_point R>
R round_to_odd(R nearest, bool above) {
    int exponent = 0;
    const R significand = std::ldexp(std::frexp(nearest, &exponent), std::numeric_limits<R>::digits);
    if (std::fmod(significand, R{2}) != 0) return nearest;
    const R infinity = std::numeric_limits<R>::infinity();
    return std::nextafter(nearest, above ? infinity : -infinity);
}

/// A sum of f64 numbers without any rounding: partial sums that do not overlap (Shewchuk 1997, as Python's
/// math.fsum). They are of a type with a wider exponent, so that none of them overflows.
class ExactSum {
  public:
    void add(double value) {
        if (!std::isfinite(value)) {
            special_ += value;
            return;
        }
        if (value != 0 || !std::signbit(value)) zero_ = 0.0;
        long double carried = value;
        std::size_t kept = 0;
        for (const long double partial : partials_) {
            const long double sum = carried + partial;
            const long double lost = rounded_off(carried, partial, sum);
            if (lost != 0) partials_[kept++] = lost;
            carried = sum;
        }
        partials_.resize(kept);
        partials_.push_back(carried);
    }

    /// The sum rounded once, to nearest with ties to even. Infinity where it passes the range of `T`.
    template <class T>
    [[nodiscard]] T rounded() const {
        if (special_ != 0) return T(special_);
        long double sum = 0;
        long double lost = 0;
        for (std::size_t i = partials_.size(); i-- > 0 && lost == 0;) {
            const long double larger = sum;
            sum = larger + partials_[i];
            lost = partials_[i] - (sum - larger);
        }
        if (lost != 0) sum = round_to_odd(sum, lost > 0);
        if (sum == 0) return T(zero_);
        if constexpr (std::floating_point<T>) {
            return static_cast<T>(sum);
        } else {  // the 16-bit types are made from doubles
            const auto nearest = static_cast<double>(sum);
            const auto wide = static_cast<long double>(nearest);
            const bool exact = wide == sum || !std::isfinite(nearest);
            return T(exact ? nearest : round_to_odd(nearest, sum > wide));
        }
    }

  private:
    static_assert(std::numeric_limits<long double>::digits >= 64 &&
                  std::numeric_limits<long double>::max_exponent > 2000);

    std::vector<long double> partials_;  ///< the smallest first
    double special_ = 0;                 ///< of infinities and NaNs
    double zero_ = -0.0;                 ///< the sum where it is 0: −0 if every value was
};

/// The type in which values are added that become one of type T: wide enough that the sum is rounded once.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, T,
                                std::conditional_t<kIsComplex<T>, std::complex<double>, double>>;

/// The sum of a range of Wide<T>, which is rounded once; false where it is beyond the range of T.
template <class T, class Values>
bool add_exactly(const Values& values, T& sum) {
    if constexpr (std::is_integral_v<T>) {
        __int128 exact = 0;
        for (const T value : values) exact += value;
        sum = static_cast<T>(exact);
        return sum == exact;
    } else {
        const auto add = [&]<class Part>(Part& part, auto part_of) {
            ExactSum exact;
            bool finite = true;
            for (const auto& each : values) {
                const double value = part_of(each);
                exact.add(value);
                finite &= std::isfinite(value);
            }
            part = exact.rounded<Part>();
            return !finite || std::isfinite(static_cast<double>(part));
        };
        if constexpr (kIsComplex<T>) {
            typename T::value_type parts[2] = {};
            const bool holds = add(parts[0], [](const auto& value) { return value.real(); }) &&
                               add(parts[1], [](const auto& value) { return value.imag(); });
            sum = T(parts[0], parts[1]);
            return holds;
        } else {
            return add(sum, [](double value) { return value; });
        }
    }
}

}  // namespace gpumat
