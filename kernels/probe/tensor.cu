// Tensor cores: products of small matrices of a warp (mma.sync) and of four warps (wgmma), one after the
// other on registers and shared memory that hold anything, so that nothing but the matrix units is in the
// way.
#include <array>

#include "kernels/common/launch.cuh"
#include "kernels/probe/measure.hpp"
#include "kernels/probe/timing.cuh"

namespace gpumat::probe {

double core_flops_per_s(Gpu& gpu, bool wide);  // arithmetic.cu

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksEach = 2;  // a multiprocessor
constexpr int kSums = 8;        // tiles of a warp that do not wait for each other
constexpr int kRounds = 1 << 12;

/// One product a warp: kOperations of them a step, on accumulators of Sum.
struct F16 {
    using Sum = float;
    static constexpr double kOperations = 2.0 * 16 * 8 * 16;
    static constexpr int kLeast = 80;
    static __device__ void step(Sum (&c)[4], unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 800
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a), "r"(b));
#endif
    }
};
struct Bf16 {
    using Sum = float;
    static constexpr double kOperations = F16::kOperations;
    static constexpr int kLeast = 80;
    static __device__ void step(Sum (&c)[4], unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 800
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, "
            "%5}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a), "r"(b));
#endif
    }
};
struct Tf32 {
    using Sum = float;
    static constexpr double kOperations = 2.0 * 16 * 8 * 8;
    static constexpr int kLeast = 80;
    static __device__ void step(Sum (&c)[4], unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 800
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, "
            "%5}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a), "r"(b));
#endif
    }
};
struct I8 {
    using Sum = int;
    static constexpr double kOperations = 2.0 * 16 * 8 * 32;
    static constexpr int kLeast = 80;
    static __device__ void step(Sum (&c)[4], unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 800
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, "
            "{%0, %1, %2, %3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a), "r"(b));
#endif
    }
};
struct F64 {
    using Sum = double;
    static constexpr double kOperations = 2.0 * 16 * 8 * 16;
    static constexpr int kLeast = 90;
    static __device__ void step(Sum (&c)[4], unsigned a, unsigned b) {
#if __CUDA_ARCH__ >= 900
        const auto x = static_cast<double>(a);
        const auto y = static_cast<double>(b);
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %4, %4, %4, %4, %4, "
            "%4, "
            "%4}, {%5, %5, %5, %5}, {%0, %1, %2, %3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(x), "d"(y));
#endif
    }
};

template <class M>
__global__ void __launch_bounds__(kThreads) mma_kernel(unsigned a, unsigned b, typename M::Sum* out) {
    typename M::Sum sums[kSums][4] = {};
    for (int round = 0; round < kRounds; ++round) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) M::step(sums[i], a, b);
    }
    bool all = true;
#pragma unroll
    for (int i = 0; i < kSums; ++i) all = all && sums[i][0] == 123 && sums[i][3] == 321;
    if (all) *out = sums[0][0];  // never, but the compiler cannot know
}

template <class M>
std::optional<double> mma_flops(Gpu& gpu) {
    if (gpu.info().compute_capability < M::kLeast || code_capability() < M::kLeast) return std::nullopt;
    const auto blocks = static_cast<unsigned>(kBlocksEach * gpu.info().multiprocessors);
    const DeviceMemory out = gpu.allocate(sizeof(typename M::Sum));
    const double ms = best_ms(gpu, [&](cudaStream_t stream) {
        mma_kernel<M><<<blocks, kThreads, 0, stream>>>(0, 0, static_cast<typename M::Sum*>(out.data()));
    });
    return M::kOperations * kSums * kRounds * blocks * (kThreads / 32) / ms * 1e3;
}

// ---- Products of four warps, whose operands lie in shared memory ----

constexpr int kWideRounds = 1 << 11;
constexpr int kWideUnrolled = 8;
constexpr double kWideOperations = 2.0 * 64 * 128 * 16;
constexpr int kSharedBytes = 16 * 1024;

/// Operands without swizzle: blocks of 8 rows of 16 bytes, one after the other.
__device__ __forceinline__ unsigned long long descriptor(unsigned address) {
    constexpr unsigned long long kLeading = 128 >> 4;
    constexpr unsigned long long kStride = 256 >> 4;
    return (address & 0x3ffffU) >> 4U | kLeading << 16U | kStride << 32U;
}

__device__ __forceinline__ void wide_step(float (&sums)[64], unsigned long long a, unsigned long long b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile(
        "{ .reg .pred add; setp.ne.b32 add, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1, 0, 0; }"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
          "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
          "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]),
          "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]),
          "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]),
          "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),
          "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]),
          "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]),
          "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]),
          "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]),
          "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
        : "l"(a), "l"(b), "r"(1));
#endif
}

__global__ void __launch_bounds__(kThreads) wgmma_kernel(float* out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ __align__(1024) unsigned shared[kSharedBytes / 4];
    for (unsigned i = threadIdx.x; i < kSharedBytes / 4; i += kThreads) shared[i] = 0;
    __syncthreads();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the zeros are there for the matrix units
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const unsigned long long a = descriptor(address);
    const unsigned long long b = descriptor(address + kSharedBytes / 2);
    float sums[64] = {};
    for (int round = 0; round < kWideRounds; ++round) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < kWideUnrolled; ++i) wide_step(sums, a, b);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    bool all = true;
#pragma unroll
    for (int i = 0; i < 64; ++i) all = all && sums[i] == 123.0F;
    if (all) *out = sums[0];  // never, but the compiler cannot know
#else
    *out = 0;
#endif
}

std::optional<double> wgmma_flops(Gpu& gpu) {
    if (gpu.info().compute_capability != 90 || code_capability() < 90) return std::nullopt;
    const auto blocks = static_cast<unsigned>(kBlocksEach * gpu.info().multiprocessors);
    const DeviceMemory out = gpu.allocate(sizeof(float));
    const double ms = best_ms(gpu, [&](cudaStream_t stream) {
        wgmma_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<float*>(out.data()));
    });
    return kWideOperations * kWideUnrolled * kWideRounds * blocks * (kThreads / 128) / ms * 1e3;
}

struct Units {
    std::string_view name;
    std::optional<double> (*flops_per_s)(Gpu& gpu);
};
constexpr std::array kUnits = {
    Units{"f32", [](Gpu& gpu) { return std::optional(core_flops_per_s(gpu, false)); }},
    Units{"f64", [](Gpu& gpu) { return std::optional(core_flops_per_s(gpu, true)); }},
    Units{"f16 mma", mma_flops<F16>},
    Units{"bf16 mma", mma_flops<Bf16>},
    Units{"tf32 mma", mma_flops<Tf32>},
    Units{"i8 mma", mma_flops<I8>},
    Units{"f64 mma", mma_flops<F64>},
    Units{"bf16 wgmma", wgmma_flops},
};

}  // namespace

std::optional<double> flops_per_s(Gpu& gpu, std::string_view units) {
    for (const Units& known : kUnits) {
        if (known.name == units) return known.flops_per_s(gpu);
    }
    return std::nullopt;
}

std::vector<std::string_view> units_of_arithmetic() {
    std::vector<std::string_view> names;
    for (const Units& known : kUnits) names.push_back(known.name);
    return names;
}

}  // namespace gpumat::probe
