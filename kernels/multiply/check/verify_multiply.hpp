#pragma once

#include <cstdint>

#include "kernels/check/check.hpp"

// Verification of a result against a reference computed here on the CPU. kernels/check/verification.md
// derives the criteria.
//
// Integer multiplies are compared exactly, modulo 2^bits.
// A part of an element of a floating-point or complex multiply is right where its error keeps within
//  - what rounding is expected to do in the arithmetic of the type, whatever the order of the additions, with
//    a probability of 5e−18 that an honest one does not, and with regard to data on which rounding errors are
//    not independent;
//  - and within the worst case, which is proved.
// The root mean square error of what is compared must be that of the arithmetic: operands rounded to TF32 or
// bf16 do not pass for f32. Comparisons are written so that NaN fails. Special values:
//  - Where the reference is NaN or an infinity (the inputs hold some), C must be NaN or the same infinity.
//    A complex element with a NaN or infinite part counts as "not finite", and must meet one that is.
//  - Where the terms are so large that the accumulation can overflow (S, or |A|·|B| before α, passes the
//    largest finite value of the type that sums have), C may also be infinite or NaN.
//  - Where the reference interval (reference ± worst case) reaches the value from which the output
//    type rounds to infinity, C may also be that infinity (f16: from 65520).
//  - Everywhere else a NaN or an infinity in C is a mismatch.

namespace gpumat {

/// Columns of X in Freivalds' check. Floating point: entries ±1. Rows that stand out from the others by
/// their residuals, and some at random, are computed again; only errors of elements make a result fail.
/// Integers: the first column is odd numbers, the others any, so that a single wrong element in a row is
/// always found, and any other pattern of errors is missed with a probability of at most 2^−15.
inline constexpr int kFreivaldsRounds = 16;

/// Whether a multiply is checked by Freivalds' check in this mode, and not element by element.
bool checks_at_random(const Problem& problem, VerifyMode mode);

/// Whether `operands.c` is the result of `problem`. All operands are in host memory.
/// Throws Error{memory} where the work space cannot be had.
Verification verify_multiply(const Problem& problem, const Operands& operands, const VerifyOptions& options);

namespace multiply {
/// In panels of rows, too, and in blocks, where the mode does not need the result whole.
extern const Check kCheck;
}  // namespace multiply

}  // namespace gpumat
