#pragma once

#include "kernels/check/check.hpp"

namespace gpumat {

/// The most elements that a level adds up in one chain of f64 additions; what it makes of such chains keeps
/// what is rounded off. The operation's README derives the bounds from it.
inline constexpr double kReducedInAChain = 4096;

/// Whether `operands.c` is the reduction of `operands.a` that the problem's choices name. Every mode but
/// `none` does the same: each result against sums in twice the precision of f64, or in 128 bits for integers.
///  - Integers, min, max, counts and the largest magnitudes of real numbers are exact, sums of integers
///  modulo
///    2^64; NaN meets NaN and 0 meets −0.
///  - Other results are within the derived bound, or that of sums in any order where `any_order` says so, or
///    `tolerance` times the sum of the magnitudes (the norm).
///  - Where the sum of the magnitudes passes the range of f64, a sum may be infinite or NaN; beside an
///  infinity
///    among the elements NaN, where the others may add up to the opposite one.
Verification verify_reduction(const Problem& problem, const Operands& operands, const VerifyOptions& options);

namespace reduce {
/// Also of a result that is combined of parts: no element is looked at again, and what is kept does not grow
/// with the parts.
extern const Check kCheck;
}  // namespace reduce

}  // namespace gpumat
