#pragma once

#include <cstdint>
#include <vector>

#include "kernels/problem.hpp"
#include "lib/error_bound.hpp"

namespace gpumat {

/// Freivalds' randomized check of a multiply: C·X against α·op(A)·(op(B)·X) + β·D·X, row by row, for an n ×
/// kFreivaldsRounds matrix X of random numbers. Costs about kFreivaldsRounds operations an element of A, B, C
/// and D, instead of 2·M·N·K.
///
/// Returns for each row of C the largest error over its bound: above 1 the row is wrong. Integers are exact:
/// 0 or infinity. NaN where a row cannot be judged, because it holds infinities or NaN or overflows.
std::vector<double> freivalds_ratios(const Problem& problem, const Operands& operands,
                                     const ErrorBound& bound, int threads, std::uint64_t seed);

}  // namespace gpumat
