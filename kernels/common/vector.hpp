#pragma once

/// Always inlined: what is written once with `Vector` is then compiled in the instructions of the function
/// that it ends up in. What it calls of one processor's instructions is `inline` only: it is inlined after.
#define GPUMAT_INLINE __attribute__((always_inline)) inline

namespace gpumat {

template <class Number, int kLanes>
struct VectorOf {
    typedef Number Type __attribute__((vector_size(kLanes * sizeof(Number))));  // NOLINT: `using` drops it
};

/// The compiler's vector type, of any width on any processor.
template <class Number, int kLanes>
using Vector = typename VectorOf<Number, kLanes>::Type;

}  // namespace gpumat
