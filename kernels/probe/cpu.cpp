// What a CPU does fast and slow: the same questions as those to a GPU, where they mean something.
#include "kernels/probe/cpu.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/memory.hpp"
#include "core/numbers/half.hpp"
#include "core/parallel.hpp"
#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector.hpp"
#include "kernels/common/vector_width.hpp"

namespace gpumat::probe {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The least seconds of a few runs.
template <class Work>
double best_seconds(const Work& work) {
    constexpr int kRuns = 3;
    double best = 0;
    for (int run = 0; run < kRuns; ++run) {
        const auto start = Clock::now();
        work();
        const double seconds = seconds_since(start);
        best = run == 0 ? seconds : std::min(best, seconds);
    }
    return best;
}

/// What came out of a measurement goes here, so that no compiler leaves it out.
template <class T>
void keep(const T& value) {
    asm volatile("" : : "r,m"(value) : "memory");
}

// ---- Chains of multiply-adds ----

constexpr std::int64_t kSteps = 2'000'000;

/// kSteps multiply-adds on each of kChains vectors of kBytes.
template <int kBytes, int kChains>
GPUMAT_INLINE float run_chains(float x, float y) {
    using Sum = Vector<float, kBytes / sizeof(float)>;
    Sum sums[kChains];
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sums[i] = Sum{} + static_cast<float>(i);
    for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
        for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * x + y;
    }
#pragma GCC unroll 16
    for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
    return sums[0][0];
}

template <int kChains>
float run_plain(float x, float y) {
    return run_chains<16, kChains>(x, y);
}
#ifdef __x86_64__
template <int kChains>
GPUMAT_AVX2 float run_avx2(float x, float y) {
    return run_chains<32, kChains>(x, y);
}
template <int kChains>
GPUMAT_AVX512 float run_avx512(float x, float y) {
    return run_chains<64, kChains>(x, y);
}
#endif

template <int kChains>
double chains_per_s() {
    auto* run = run_plain<kChains>;
    int lanes = 4;
#ifdef __x86_64__
    if (widest_vectors() == VectorWidth::avx512) {
        run = run_avx512<kChains>;
        lanes = 16;
    } else if (widest_vectors() == VectorWidth::avx2) {
        run = run_avx2<kChains>;
        lanes = 8;
    }
#endif
    volatile float x = 0.5F;
    volatile float y = 1.0F;
    const double seconds = best_seconds([&] { keep(run(x, y)); });
    return static_cast<double>(kSteps) * kChains * lanes / seconds;
}

// ---- Operations one by one ----

/// 10⁹ results a second of `step` on eight numbers that do not wait for each other.
template <class T, class Step>
OperationRate rate_of(std::string_view name, T start, T constant, const Step& step) {
    constexpr int kChains = 8;
    constexpr std::int64_t kRounds = 400'000;
    volatile T source = constant;
    const T c = source;
    std::array<T, kChains> x;
    for (int i = 0; i < kChains; ++i)
        x[static_cast<std::size_t>(i)] = static_cast<T>(start + static_cast<T>(i));
    const double seconds = best_seconds([&] {
        for (std::int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 8
            for (std::size_t i = 0; i < kChains; ++i) {
                x[i] = step(x[i], c);
                if constexpr (std::is_floating_point_v<T>) {
#ifdef __x86_64__
                    asm volatile("" : "+x"(x[i]));  // one by one: no vectors, no closed forms
#else
                    asm volatile("" : "+w"(x[i]));
#endif
                } else {
                    asm volatile("" : "+r"(x[i]));
                }
            }
        }
    });
    return {name, kChains * static_cast<double>(kRounds) / seconds / 1e9};
}

}  // namespace

double multiply_adds_per_s(int chains) {
    switch (chains) {
        case 1:
            return chains_per_s<1>();
        case 2:
            return chains_per_s<2>();
        case 4:
            return chains_per_s<4>();
        case 8:
            return chains_per_s<8>();
        default:
            return chains_per_s<16>();
    }
}

double set_conflict_ns(std::int64_t stride_bytes) {
    constexpr std::int64_t kLines = 64;  // more than a set has ways, few enough for any cache
    constexpr std::int64_t kRounds = 2000;
    Buffer memory(static_cast<std::size_t>(kLines * stride_bytes + 64));
    std::memset(memory.data(), 0, memory.size());
    // Each line holds the way to the next one, so that one access waits for the other.
    for (std::int64_t i = 0; i < kLines; ++i) {
        const std::int64_t next = (i + 1) % kLines * stride_bytes;
        std::memcpy(memory.data() + i * stride_bytes, &next, sizeof next);
    }
    const double seconds = best_seconds([&] {
        std::int64_t at = 0;
        for (std::int64_t i = 0; i < kLines * kRounds; ++i) std::memcpy(&at, memory.data() + at, sizeof at);
        keep(at);
    });
    return seconds / static_cast<double>(kLines * kRounds) * 1e9;
}

namespace cpu {

double strided_bytes_per_s(int threads, int stride, int offset) {
    constexpr std::int64_t kWords = std::int64_t{1} << 26;
    constexpr std::int64_t kAtOnce = std::int64_t{1} << 18;
    static Buffer memory;  // hundreds of megabytes, once for all strides
    if (memory.size() == 0) {
        memory = Buffer(kWords * sizeof(float));
        std::memset(memory.data(), 0, memory.size());
    }
    const auto* words = reinterpret_cast<const std::uint32_t*>(memory.data());
    const double seconds = best_seconds([&] {
        parallel_for(kWords, kAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
            std::uint32_t sum = 0;
            for (std::int64_t i = begin + offset; i < end; i += stride) sum += words[i];
            keep(sum);
        });
    });
    const auto touched = kWords / stride;
    return static_cast<double>(touched) * sizeof(float) / seconds;
}

std::vector<OperationRate> operation_rates() {
    using U = std::uint32_t;
    return {rate_of("f32 add", 1.0F, 0.5F, [](float x, float c) { return x + c; }),
            rate_of("f32 multiply", 1.0F, 1.0F, [](float x, float c) { return x * c; }),
            rate_of("f32 divide", 1.0F, 1.5F, [](float x, float c) { return c / x; }),
            rate_of("f32 square root", 1.0F, 0.5F, [](float x, float c) { return std::sqrt(x) + c; }),
            rate_of("f32 sine", 1.0F, 0.5F, [](float x, float c) { return std::sin(x) + c; }),
            rate_of("f64 add", 1.0, 0.5, [](double x, double c) { return x + c; }),
            rate_of("f64 multiply", 1.0, 1.0, [](double x, double c) { return x * c; }),
            rate_of("f64 divide", 1.0, 1.5, [](double x, double c) { return c / x; }),
            rate_of("u32 add", U{1}, U{7}, [](U x, U c) { return x + c; }),
            rate_of("u32 multiply", U{1}, U{2654435761}, [](U x, U c) { return x * c; }),
            rate_of("u32 divide", U{1}, U{2654435761}, [](U x, U c) { return c / (x | 1U); }),
            rate_of("u32 modulo", U{1}, U{2654435761}, [](U x, U c) { return c % (x | 1U); }),
            rate_of("u32 modulo 4096", U{1}, U{7}, [](U x, U) { return x % 4096; }),
            rate_of("convert f32 and i32", 1.0F, 0.5F,
                    [](float x, float c) { return static_cast<float>(static_cast<int>(x)) + c; })};
}

}  // namespace cpu
}  // namespace gpumat::probe
