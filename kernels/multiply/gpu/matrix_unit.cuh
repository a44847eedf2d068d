#pragma once

// Hopper's matrix units, which four warps (a warpgroup) drive together: operands in shared memory, sums in
// registers. For code that is compiled for compute capability 9.0a; in any other it stops the kernel.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace gpumat::multiply::gpu {

/// f32 rounded to the 11 significant bits that the matrix units use of it.
struct Tf32 {
    float value;
};

/// What the matrix units add products of factors up in. Sums of integers wrap.
template <class Factor>
using UnitSum = std::conditional_t<std::is_same_v<Factor, std::int8_t>, std::uint32_t, float>;

/// The descriptor of an operand in shared memory with the 128-byte swizzle, in groups of 8 rows of 128 bytes.
/// A row runs along k, and groups follow each other along m or n; or a row runs along m or n, groups follow
/// each other along k, and the next 128 bytes of m or n are `block_bytes` further.
__device__ __forceinline__ std::uint64_t unit_operand(std::uint32_t shared, std::uint32_t block_bytes) {
    constexpr std::uint64_t kGroup = 1024 >> 4;
    constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
    return (shared & 0x3ffffU) >> 4 | std::uint64_t{block_bytes >> 4} << 16 | kGroup << 32 | kSwizzle128;
}

/// Orders this thread's accesses of the sums' registers before the products that come.
__device__ __forceinline__ void begin_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Ends a group of products.
__device__ __forceinline__ void commit_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits until at most kPending of the last groups are still under way.
template <int kPending>
__device__ __forceinline__ void wait_products() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

/// Gives registers of this warpgroup back, or takes them: kCount a thread from now on.
template <int kCount>
__device__ __forceinline__ void give_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

// The operands of the instruction: its sums, with their constraint, and their numbers in the text.
#define GPUMAT_SUMS_8(kind, s, i)                                                                 \
    kind((s)[i]), kind((s)[(i) + 1]), kind((s)[(i) + 2]), kind((s)[(i) + 3]), kind((s)[(i) + 4]), \
        kind((s)[(i) + 5]), kind((s)[(i) + 6]), kind((s)[(i) + 7])
#define GPUMAT_SUMS_32(kind, s, i)                                                                \
    GPUMAT_SUMS_8(kind, s, i), GPUMAT_SUMS_8(kind, s, (i) + 8), GPUMAT_SUMS_8(kind, s, (i) + 16), \
        GPUMAT_SUMS_8(kind, s, (i) + 24)
#define GPUMAT_SUMS_64(kind, s, i) GPUMAT_SUMS_32(kind, s, i), GPUMAT_SUMS_32(kind, s, (i) + 32)
#define GPUMAT_SUMS_96(kind, s, i) GPUMAT_SUMS_64(kind, s, i), GPUMAT_SUMS_32(kind, s, (i) + 64)
#define GPUMAT_SUMS_128(kind, s, i) GPUMAT_SUMS_64(kind, s, i), GPUMAT_SUMS_64(kind, s, (i) + 64)
#define GPUMAT_NUMBERS_32                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GPUMAT_NUMBERS_64                                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GPUMAT_NUMBERS_96                                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define GPUMAT_NUMBERS_128                                                                         \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/// Starts sums = A·B, plus what they are where `add`: 64 rows by kColumns, 32 bytes of k deep. Thread t of
/// the warpgroup holds of row 16·(t / 32) + t / 4 mod 8 and of the one 8 below it, in every 8 columns,
/// columns 2·(t mod 4) and the next: sums 0 and 1 in the upper row, 2 and 3 in the lower. kAcross: rows of
/// the operand in shared memory run along m or n, which only factors of 16 bits may.
template <class Factor, int kColumns, bool kAcrossA, bool kAcrossB>
__device__ __forceinline__ void multiply_async(UnitSum<Factor> (&sums)[kColumns / 2], std::uint64_t a,
                                               std::uint64_t b, int add) {
    static_assert(kColumns == 64 || kColumns == 128 || kColumns == 192 || kColumns == 256);
    static_assert(sizeof(Factor) == 2 || !(kAcrossA || kAcrossB));
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (std::is_same_v<Factor, __half> && kColumns == 64) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %34, "
            "0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" GPUMAT_NUMBERS_32
            "}, %32, %33, add, 1, 1, %35, %36;\n}"
            : GPUMAT_SUMS_32("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, __half> && kColumns == 128) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %66, "
            "0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" GPUMAT_NUMBERS_64
            "}, %64, %65, add, 1, 1, %67, %68;\n}"
            : GPUMAT_SUMS_64("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, __half> && kColumns == 192) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %98, "
            "0;\nwgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {" GPUMAT_NUMBERS_96
            "}, %96, %97, add, 1, 1, %99, %100;\n}"
            : GPUMAT_SUMS_96("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, __half> && kColumns == 256) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %130, "
            "0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" GPUMAT_NUMBERS_128
            "}, %128, %129, add, 1, 1, %131, %132;\n}"
            : GPUMAT_SUMS_128("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, __nv_bfloat16> && kColumns == 64) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %34, "
            "0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" GPUMAT_NUMBERS_32
            "}, %32, %33, add, 1, 1, %35, %36;\n}"
            : GPUMAT_SUMS_32("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, __nv_bfloat16> && kColumns == 128) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %66, "
            "0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" GPUMAT_NUMBERS_64
            "}, %64, %65, add, 1, 1, %67, %68;\n}"
            : GPUMAT_SUMS_64("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, __nv_bfloat16> && kColumns == 192) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %98, "
            "0;\nwgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" GPUMAT_NUMBERS_96
            "}, %96, %97, add, 1, 1, %99, %100;\n}"
            : GPUMAT_SUMS_96("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, __nv_bfloat16> && kColumns == 256) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %130, "
            "0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" GPUMAT_NUMBERS_128
            "}, %128, %129, add, 1, 1, %131, %132;\n}"
            : GPUMAT_SUMS_128("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add), "n"(static_cast<int>(kAcrossA)), "n"(static_cast<int>(kAcrossB)));
    } else if constexpr (std::is_same_v<Factor, Tf32> && kColumns == 64) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %34, "
            "0;\nwgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" GPUMAT_NUMBERS_32
            "}, %32, %33, add, 1, 1;\n}"
            : GPUMAT_SUMS_32("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    } else if constexpr (std::is_same_v<Factor, Tf32> && kColumns == 128) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %66, "
            "0;\nwgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {" GPUMAT_NUMBERS_64
            "}, %64, %65, add, 1, 1;\n}"
            : GPUMAT_SUMS_64("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    } else if constexpr (std::is_same_v<Factor, Tf32> && kColumns == 192) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %98, "
            "0;\nwgmma.mma_async.sync.aligned.m64n192k8.f32.tf32.tf32 {" GPUMAT_NUMBERS_96
            "}, %96, %97, add, 1, 1;\n}"
            : GPUMAT_SUMS_96("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    } else if constexpr (std::is_same_v<Factor, Tf32> && kColumns == 256) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %130, "
            "0;\nwgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {" GPUMAT_NUMBERS_128
            "}, %128, %129, add, 1, 1;\n}"
            : GPUMAT_SUMS_128("+f", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    } else if constexpr (std::is_same_v<Factor, std::int8_t> && kColumns == 64) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 "
            "{" GPUMAT_NUMBERS_32 "}, %32, %33, add;\n}"
            : GPUMAT_SUMS_32("+r", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    } else if constexpr (std::is_same_v<Factor, std::int8_t> && kColumns == 128) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
            "{" GPUMAT_NUMBERS_64 "}, %64, %65, add;\n}"
            : GPUMAT_SUMS_64("+r", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    } else if constexpr (std::is_same_v<Factor, std::int8_t> && kColumns == 192) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %98, "
            "0;\nwgmma.mma_async.sync.aligned.m64n192k32.s32.s8.s8 {" GPUMAT_NUMBERS_96 "}, %96, %97, add;\n}"
            : GPUMAT_SUMS_96("+r", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    } else if constexpr (std::is_same_v<Factor, std::int8_t> && kColumns == 256) {
        asm volatile(
            "{\n.reg .pred add;\nsetp.ne.b32 add, %130, "
            "0;\nwgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" GPUMAT_NUMBERS_128
            "}, %128, %129, add;\n}"
            : GPUMAT_SUMS_128("+r", sums, 0)
            : "l"(a), "l"(b), "r"(add));
    }
#endif
}

#undef GPUMAT_SUMS_8
#undef GPUMAT_SUMS_32
#undef GPUMAT_SUMS_64
#undef GPUMAT_SUMS_96
#undef GPUMAT_SUMS_128
#undef GPUMAT_NUMBERS_32
#undef GPUMAT_NUMBERS_64
#undef GPUMAT_NUMBERS_96
#undef GPUMAT_NUMBERS_128

}  // namespace gpumat::multiply::gpu
