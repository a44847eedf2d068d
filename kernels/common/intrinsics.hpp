#pragma once

// The vector intrinsics of x86-64. GCC 12 warns of its own header, where an undefined register is meant.
#ifdef __x86_64__
#ifndef __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>  // IWYU pragma: export
#ifndef __clang__
#pragma GCC diagnostic pop
#endif

#define GPUMAT_AVX2 __attribute__((target("avx2,fma,f16c")))
#define GPUMAT_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#endif
