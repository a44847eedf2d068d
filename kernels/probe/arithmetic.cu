// Chains of arithmetic that wait for nothing but themselves: what a multiprocessor completes in a clock.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <vector>

#include "core/error.hpp"
#include "kernels/probe/cpu.hpp"
#include "kernels/probe/measure.hpp"
#include "kernels/probe/timing.cuh"

namespace gpumat::probe {
namespace {

constexpr int kMostThreads = 1024;  // of a block

/// `kChains` values, each of which goes through F again and again. `c` is a constant that the compiler does
/// not know.
template <class F, int kChains>
__global__ void __launch_bounds__(kMostThreads)
    chains_kernel(typename F::Type c, int rounds, typename F::Type* out, long long* clocks) {
    using T = typename F::Type;
    constexpr int kUnrolled = F::kSteps / kChains;
    T x[kChains];
#pragma unroll
    for (int i = 0; i < kChains; ++i) x[i] = F::start(static_cast<int>(threadIdx.x) + i);
    const long long begin = begin_clock();
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int u = 0; u < kUnrolled; ++u) {
#pragma unroll
            for (int i = 0; i < kChains; ++i) F::step(x[i], c);
        }
    }
    end_clock(begin, clocks);
    bool all = true;
#pragma unroll
    for (int i = 0; i < kChains; ++i) all = all && F::is_magic(x[i]);
    if (all) *out = x[0];  // never, but the compiler cannot know
}

template <class F, int kChains>
double per_clock(Gpu& gpu, int threads, int rounds) {
    using T = typename F::Type;
    const auto blocks = static_cast<unsigned>(gpu.info().multiprocessors);
    const DeviceMemory out = gpu.allocate(sizeof(T));
    const double clocks = block_clocks(gpu, blocks, [&](long long* counts, cudaStream_t stream) {
        chains_kernel<F, kChains>
            <<<blocks, threads, 0, stream>>>(F::constant(), rounds, static_cast<T*>(out.data()), counts);
    });
    return static_cast<double>(threads) * F::kSteps * rounds * F::kResults / clocks;
}

template <class F>
double flops(Gpu& gpu) {
    using T = typename F::Type;
    constexpr int kChains = 8;
    constexpr int kRounds = 1 << 12;
    const auto blocks = static_cast<unsigned>(2 * gpu.info().multiprocessors);
    const DeviceMemory out = gpu.allocate(sizeof(T));
    const DeviceMemory clocks = gpu.allocate(blocks * sizeof(long long));
    const double ms = best_ms(gpu, [&](cudaStream_t stream) {
        chains_kernel<F, kChains><<<blocks, kMostThreads, 0, stream>>>(
            F::constant(), kRounds, static_cast<T*>(out.data()), static_cast<long long*>(clocks.data()));
    });
    return 2.0 * blocks * kMostThreads * F::kSteps * kRounds / ms * 1e3;
}

/// Of all chains in a turn of the loop: many, beside which its own instructions are few; and few of
/// operations that take many instructions, which the instruction cache must hold.
constexpr int kManySteps = 128;
constexpr int kFewSteps = 16;

// ---- The operations. Integers are written in assembly, or the compiler would find sums of many steps. ----

template <class T>
struct Real {
    using Type = T;
    static constexpr int kResults = 1;
    static constexpr int kSteps = kManySteps;
    static T constant() { return static_cast<T>(0.9990234375); }
    static __device__ T start(int i) { return static_cast<T>(i + 2); }
    static __device__ bool is_magic(T x) { return x == static_cast<T>(12345.678); }
};
struct Whole {
    using Type = unsigned;
    static constexpr int kResults = 1;
    static constexpr int kSteps = kManySteps;
    static unsigned constant() { return 2654435761U; }
    static __device__ unsigned start(int i) { return static_cast<unsigned>(i) * 2654435769U; }
    static __device__ bool is_magic(unsigned x) { return x == 12345678U; }
};

template <class T>
struct Add : Real<T> {
    static __device__ void step(T& x, T c) { x = x + c; }
};
template <class T>
struct Multiply : Real<T> {
    static __device__ void step(T& x, T c) { x = x * c; }
};
template <class T>
struct MultiplyAdd : Real<T> {
    static __device__ void step(T& x, T c) { x = fma(x, c, c); }
};
template <class T>
struct Divide : Real<T> {
    static constexpr int kSteps = kFewSteps;
    static __device__ void step(T& x, T c) { x = c / x; }
};
template <class T>
struct SquareRoot : Real<T> {
    static constexpr int kSteps = kFewSteps;
    static __device__ void step(T& x, T c) { x = sqrt(x) + c; }
};
struct FastDivide : Real<float> {
    static __device__ void step(float& x, float c) { x = __fdividef(c, x); }
};
struct Sine : Real<float> {
    static constexpr int kSteps = kFewSteps;
    static __device__ void step(float& x, float c) { x = sinf(x) + c; }
};
struct FastSine : Real<float> {
    static __device__ void step(float& x, float) { x = __sinf(x); }
};
struct WholeAdd : Whole {
    static __device__ void step(unsigned& x, unsigned c) {
        asm volatile("add.u32 %0, %0, %1;" : "+r"(x) : "r"(c));
    }
};
struct WholeMultiply : Whole {
    static __device__ void step(unsigned& x, unsigned c) {
        asm volatile("mul.lo.u32 %0, %0, %1;" : "+r"(x) : "r"(c));
    }
};
struct WholeMultiplyAdd : Whole {
    static __device__ void step(unsigned& x, unsigned c) {
        asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(x) : "r"(c));
    }
};
struct WholeDivide : Whole {
    static constexpr int kSteps = kFewSteps;
    static __device__ void step(unsigned& x, unsigned c) { x = c / (x | 1U); }
};
struct WholeModulo : Whole {
    static constexpr int kSteps = kFewSteps;
    static __device__ void step(unsigned& x, unsigned c) { x = c % (x | 1U); }
};
struct ModuloPower : Whole {
    static __device__ void step(unsigned& x, unsigned) { asm volatile("rem.u32 %0, %0, 4096;" : "+r"(x)); }
};
/// Two 16-bit numbers an instruction.
template <class Two>
struct TwoMultiplyAdds {
    using Type = Two;
    static constexpr int kResults = 2;
    static constexpr int kSteps = kManySteps;
    static Two constant() {
        Two two;
        two.x = 1.0F;
        two.y = 0.5F;
        return two;
    }
    static __device__ Two start(int i) {
        Two two;
        two.x = static_cast<float>(i);
        two.y = 1.0F;
        return two;
    }
    static __device__ bool is_magic(Two x) { return static_cast<float>(x.x) == 123.0F; }
    static __device__ void step(Two& x, Two c) { x = __hfma2(x, c, c); }
};
template <class Narrow>
struct ToNarrowAndBack : Real<float> {
    static constexpr int kResults = 2;
    static __device__ void step(float& x, float) {
        if constexpr (sizeof(Narrow) == 2) {
            asm volatile("{ .reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h; }" : "+f"(x));
        } else if constexpr (sizeof(Narrow) == 8) {
            asm volatile("{ .reg .f64 d; cvt.f64.f32 d, %0; cvt.rn.f32.f64 %0, d; }" : "+f"(x));
        } else {
            asm volatile("{ .reg .s32 i; cvt.rzi.s32.f32 i, %0; cvt.rn.f32.s32 %0, i; }" : "+f"(x));
        }
    }
};

template <class F>
OperationRate rate_of(Gpu& gpu, std::string_view name) {
    constexpr int kRounds = 2048 / F::kSteps;
    return {name, per_clock<F, 8>(gpu, kMostThreads, kRounds)};
}

}  // namespace

double multiply_adds_per_clock(Gpu& gpu, int threads, int chains) {
    constexpr int kRounds = 64;
    using F = MultiplyAdd<float>;
    switch (chains) {
        case 1:
            return per_clock<F, 1>(gpu, threads, kRounds);
        case 2:
            return per_clock<F, 2>(gpu, threads, kRounds);
        case 4:
            return per_clock<F, 4>(gpu, threads, kRounds);
        default:
            return per_clock<F, 8>(gpu, threads, kRounds);
    }
}

std::vector<OperationRate> operation_rates(const Device& device) {
    if (device.gpu == nullptr) return cpu::operation_rates();
    Gpu& gpu = *device.gpu;
    return {rate_of<Add<float>>(gpu, "f32 add"),
            rate_of<Multiply<float>>(gpu, "f32 multiply"),
            rate_of<MultiplyAdd<float>>(gpu, "f32 multiply-add"),
            rate_of<Divide<float>>(gpu, "f32 divide"),
            rate_of<FastDivide>(gpu, "f32 divide, fast"),
            rate_of<SquareRoot<float>>(gpu, "f32 square root"),
            rate_of<Sine>(gpu, "f32 sine"),
            rate_of<FastSine>(gpu, "f32 sine, fast"),
            rate_of<TwoMultiplyAdds<__half2>>(gpu, "f16 multiply-add, two at a time"),
            rate_of<TwoMultiplyAdds<__nv_bfloat162>>(gpu, "bf16 multiply-add, two at a time"),
            rate_of<Add<double>>(gpu, "f64 add"),
            rate_of<MultiplyAdd<double>>(gpu, "f64 multiply-add"),
            rate_of<Divide<double>>(gpu, "f64 divide"),
            rate_of<WholeAdd>(gpu, "u32 add"),
            rate_of<WholeMultiply>(gpu, "u32 multiply"),
            rate_of<WholeMultiplyAdd>(gpu, "u32 multiply-add"),
            rate_of<WholeDivide>(gpu, "u32 divide"),
            rate_of<WholeModulo>(gpu, "u32 modulo"),
            rate_of<ModuloPower>(gpu, "u32 modulo 4096"),
            rate_of<ToNarrowAndBack<__half>>(gpu, "convert f32 and f16"),
            rate_of<ToNarrowAndBack<double>>(gpu, "convert f32 and f64"),
            rate_of<ToNarrowAndBack<int>>(gpu, "convert f32 and i32")};
}

// The core units of flops_per_s; the tensor cores' are in tensor.cu.
double core_flops_per_s(Gpu& gpu, bool wide) {
    return wide ? flops<MultiplyAdd<double>>(gpu) : flops<MultiplyAdd<float>>(gpu);
}

}  // namespace gpumat::probe
