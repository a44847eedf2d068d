#pragma once

#include <cstdint>
#include <limits>

// Arithmetic of sizes and counts, none of which is negative.

namespace gpumat {

/// How many times `by` it takes to hold `value`; `by` is positive.
template <class Whole>
constexpr Whole ceil_div(Whole value, Whole by) {
    return value / by + (value % by != 0 ? 1 : 0);
}

/// The least multiple of `by` that is no less than `value`.
template <class Whole>
constexpr Whole round_up(Whole value, Whole by) {
    return ceil_div(value, by) * by;
}

/// The largest multiple of `by` that is no more than `value`, but at least one.
template <class Whole>
constexpr Whole round_down(Whole value, Whole by) {
    return value < by ? by : value / by * by;
}

/// The sum; what does not fit in 64 bits is as good as the largest number that does.
constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    return b > kMost - a ? kMost : a + b;
}

/// The product, likewise.
constexpr std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    return a != 0 && b > kMost / a ? kMost : a * b;
}

}  // namespace gpumat
