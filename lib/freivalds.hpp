#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/problem.hpp"
#include "lib/error_bound.hpp"

namespace gpumat {

/// Takes what was found in some rows of C, from row `first` on: for each the largest error over its bound.
/// Above 1 the row is wrong. Integers are exact: 0 or infinity. NaN where a row cannot be judged, because it
/// holds infinities or NaN or overflows.
using TakeRatios = std::function<void(std::int64_t first, std::span<const double> ratios)>;

/// Freivalds' randomized check of a multiply: C·X against α·op(A)·(op(B)·X) + β·D·X, row by row, for an n ×
/// kFreivaldsRounds matrix X of random numbers. Costs about kFreivaldsRounds operations an element of A, B, C
/// and D, instead of 2·M·N·K. `take` is called for all rows, some at a time and in order.
void freivalds(const Problem& problem, const Operands& operands, const ErrorBound& bound, int threads,
               std::uint64_t seed, const TakeRatios& take);

/// The work space of that check in bytes: X and op(B)·X, and the rows of C that are in work.
std::uint64_t freivalds_bytes(const Problem& problem);

}  // namespace gpumat
