#pragma once

// Runs: what elements are added to, as cheap as it can be and good for kLongestRun elements. They are written
// for a number or for a vector of numbers, a lane each.

#include <limits>

#include "kernels/reduce/numbers.hpp"

namespace gpumat::reduce {

/// The most elements that may be added to a run (to each lane of it).
inline constexpr std::int64_t kLongestRun = 4096;

/// Σx, in whole numbers that have room for a run, or in double of elements that are narrower.
template <class F>
struct RunSum {
    F sum{};

    GPUMAT_BOTH void add(const F& x) { sum += x; }
};

/// Σx and what the additions rounded off.
template <class F>
struct RunTwofold {
    F sum{};
    F rest{};

    GPUMAT_BOTH void add(const F& x) {
        const F next = sum + x;
        const F part = next - sum;  // as `rounded_off`, which cannot return vectors of every processor
        rest += (sum - (next - part)) + (x - part);
        sum = next;
    }
};

/// Σx of 64-bit integers in 128 bits; F is unsigned.
template <class F, bool kSigned>
struct RunWide {
    F low{};
    F high{};

    GPUMAT_BOTH void add(const F& x) {
        low += x;
        high += ones<F>(low < x);
        if constexpr (kSigned) high -= x >> 63;  // a negative number's upper half is −1
    }
};

/// Σx² in double, of what has no square beyond its range.
template <class F>
struct RunSquares {
    F sum{};

    GPUMAT_BOTH void add(const F& x) { sum += x * x; }
};

/// Numbers beyond these bounds are scaled before they are squared.
inline constexpr double kLarge = 0x1p500;
inline constexpr double kSmall = 0x1p-500;
inline constexpr double kScale = 0x1p600;

/// Σx² of doubles of any size, in three sums (after J. Blue, "A Portable Fortran Program to Find the
/// Euclidean Norm of a Vector", 1978): of large numbers / kScale, of small ones · kScale, and of the others.
template <class F>
struct RunScaled {
    F large{};
    F medium{};
    F small{};

    GPUMAT_BOTH void add(const F& x) {
        const F size = magnitude(x);
        const auto is_large = size > F{} + kLarge;
        const auto is_small = size < F{} + kSmall;
        const F scaled = x * (is_large ? F{} + 1 / kScale : is_small ? F{} + kScale : F{} + 1.0);
        const F square = scaled * scaled;
        large += is_large ? square : F{};
        small += is_small ? square : F{};
        medium += is_large ? F{} : is_small ? F{} : square;  // NaN is here
    }
};

/// The smallest integer, for what a `Mirror` has made of the elements.
template <class F, class Number>
struct RunLeast {
    F best = F{} + std::numeric_limits<Number>::max();

    GPUMAT_BOTH void add(const F& x) { best = x < best ? x : best; }
};

/// The smallest number and the last NaN, which has a place of its own: GCC 12 compares vectors of 64 bytes
/// number by number where one comparison decides over what another chose.
template <class F, class Number>
struct RunLeastReal {
    F best = F{} + std::numeric_limits<Number>::infinity();
    F nan{};

    GPUMAT_BOTH void add(const F& x) {
        best = x < best ? x : best;
        nan = x != x ? x : nan;  // NOLINT: NaN
    }
    GPUMAT_BOTH void take(const RunLeastReal& other) {
        best = other.best < best ? other.best : best;
        nan = other.nan != other.nan ? other.nan : nan;  // NOLINT: NaN
    }
    GPUMAT_BOTH Number value() const { return nan != nan ? nan : best; }  // NOLINT: NaN
};

/// The smallest −|x| of signed integers, which has room where |x| may have none.
template <class F, class Number>
struct RunNegated : RunLeast<F, Number> {
    GPUMAT_BOTH void add(const F& x) {
        const F above = x > F{} ? x : F{};
        RunLeast<F, Number>::add(static_cast<F>((x - above) - above));
    }
};

/// The largest magnitude, from 0. Once NaN, it stays.
template <class F>
struct RunLargest {
    F best{};

    GPUMAT_BOTH void take(const RunLargest& other) { add_magnitude(other.best); }
    GPUMAT_BOTH void add_magnitude(const F& size) {
        best = size > best ? size : best;
        best = size != size ? size : best;  // NOLINT: a NaN
    }
};

/// The largest re² + im², where no square passes the range of double.
template <class F>
struct RunModulus {
    RunLargest<F> square{};

    GPUMAT_BOTH void add(const Pair<F>& x) { square.add_magnitude(x.re * x.re + x.im * x.im); }
    GPUMAT_BOTH void take(const RunModulus& other) { square.take(other.square); }
    GPUMAT_BOTH double modulus() const { return root_of(square.best); }
};

/// The same of doubles of any size: the largest of three kinds, as RunScaled has them.
template <class F>
struct RunScaledModulus {
    RunLargest<F> large{};
    RunLargest<F> medium{};
    RunLargest<F> small{};

    GPUMAT_BOTH void add(const Pair<F>& x) {
        const F re = magnitude(x.re);
        const F im = magnitude(x.im);
        const F size = re > im ? re : im;
        const auto is_large = size > F{} + kLarge;
        const auto is_small = size < F{} + kSmall;
        const F scale = is_large ? F{} + 1 / kScale : is_small ? F{} + kScale : F{} + 1.0;
        const F a = re * scale;
        const F b = im * scale;
        const F square = a * a + b * b;
        large.add_magnitude(is_large ? square : F{});
        small.add_magnitude(is_small ? square : F{});
        medium.add_magnitude(is_large ? F{} : is_small ? F{} : square);
        // NaN in the part that was not compared is in one of the squares as well.
    }
    GPUMAT_BOTH void take(const RunScaledModulus& other) {
        large.take(other.large);
        medium.take(other.medium);
        small.take(other.small);
    }
    GPUMAT_BOTH double modulus() const {
        RunLargest<double> best;
        best.add_magnitude(root_of(large.best) * kScale);
        best.add_magnitude(root_of(medium.best));
        best.add_magnitude(root_of(small.best) / kScale);
        return best.best;
    }
};

/// How many are NaN; the count has the width of a lane.
template <class F, class Count>
struct RunCount {
    Count count{};

    GPUMAT_BOTH void add(const F& x) { count += ones<Count>(x != x); }  // NOLINT: NaN
    GPUMAT_BOTH void add(const Pair<F>& x) { count += ones<Count>((x.re != x.re) | (x.im != x.im)); }
};

/// Real and imaginary parts apart.
template <class Run>
struct RunParts {
    Run re{};
    Run im{};

    template <class F>
    GPUMAT_BOTH void add(const Pair<F>& x) {
        re.add(x.re);
        im.add(x.im);
    }
};

/// Real and imaginary parts as numbers alike.
template <class Run>
struct RunBoth {
    Run run{};

    template <class F>
    GPUMAT_BOTH void add(const Pair<F>& x) {
        run.add(x.re);
        run.add(x.im);
    }
};

}  // namespace gpumat::reduce
