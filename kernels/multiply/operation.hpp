#pragma once

#include "kernels/operation.hpp"

namespace gpumat {

/// The multiply: C = α·op(A)·op(B) + β·D, where op(A) is m×k, op(B) is k×n, and C and D are m×n. A is stored
/// k×m where `transpose_a`, B is stored n×k where `transpose_b`. As in BLAS, A and B are not read where α =
/// 0, and D is not read where β = 0: a NaN there does not reach C. Integers wrap modulo 2^bits. f16 and bf16
/// accumulate in f32 and round once at the end. C has the type of A and B; i8 is multiplied into i32 alone,
/// by the setting "result".
extern const Operation kMultiply;

namespace multiply {
extern const Tunable kTunable;

/// The reason where the result would have to be i8.
Reasons result_reasons(const Problem& problem);
}  // namespace multiply

}  // namespace gpumat
