#include "kernels/common/peak.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector_width.hpp"
#include "lib/core/parallel.hpp"

namespace gpumat {
namespace {

struct Multiprocessor {
    int compute_capability;
    int f32;
    int f64;
    int i32;
};
constexpr std::array kMultiprocessors = {
    Multiprocessor{75, 64, 2, 64},  Multiprocessor{80, 64, 32, 64}, Multiprocessor{86, 128, 2, 64},
    Multiprocessor{87, 128, 2, 64}, Multiprocessor{89, 128, 2, 64}, Multiprocessor{90, 128, 64, 64},
};

// Sums that do not wait for each other: two multiply-adds a clock of four to five clocks each need ten.
constexpr int kChains = 12;
constexpr std::int64_t kSteps = 1'000'000;

/// kSteps multiply-adds on each of kChains vectors of `kLanes` elements; returns what came out, so that
/// nothing can be left out. x and y are such that the sums stay finite.
template <class T>
T run_plain(T x, T y) {
    typedef T Vector __attribute__((vector_size(16)));  // NOLINT: `using` drops the attribute
    Vector sums[kChains] = {};
    for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
        for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * x + y;
    }
    for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
    return sums[0][0];
}

template <class T>
struct Peak {
    T (*run)(T x, T y);
    int lanes;
};

template <class T>
constexpr Peak<T> kPlain = {run_plain<T>, 16 / static_cast<int>(sizeof(T))};

#ifdef __x86_64__
GPUMAT_AVX2 float run_avx2(float x, float y) {
    __m256 sums[kChains] = {};
    for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
        for (int i = 0; i < kChains; ++i)
            sums[i] = _mm256_fmadd_ps(sums[i], _mm256_set1_ps(x), _mm256_set1_ps(y));
    }
    for (int i = 1; i < kChains; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return _mm256_cvtss_f32(sums[0]);
}
GPUMAT_AVX2 double run_avx2(double x, double y) {
    __m256d sums[kChains] = {};
    for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
        for (int i = 0; i < kChains; ++i)
            sums[i] = _mm256_fmadd_pd(sums[i], _mm256_set1_pd(x), _mm256_set1_pd(y));
    }
    for (int i = 1; i < kChains; ++i) sums[0] = _mm256_add_pd(sums[0], sums[i]);
    return _mm256_cvtsd_f64(sums[0]);
}
GPUMAT_AVX512 float run_avx512(float x, float y) {
    __m512 sums[kChains] = {};
    for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
        for (int i = 0; i < kChains; ++i)
            sums[i] = _mm512_fmadd_ps(sums[i], _mm512_set1_ps(x), _mm512_set1_ps(y));
    }
    for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return _mm512_cvtss_f32(sums[0]);
}
GPUMAT_AVX512 double run_avx512(double x, double y) {
    __m512d sums[kChains] = {};
    for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
        for (int i = 0; i < kChains; ++i)
            sums[i] = _mm512_fmadd_pd(sums[i], _mm512_set1_pd(x), _mm512_set1_pd(y));
    }
    for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_pd(sums[0], sums[i]);
    return _mm512_cvtsd_f64(sums[0]);
}
#endif

template <class T>
Peak<T> peak_for(VectorWidth width) {
#ifdef __x86_64__
    constexpr int kBits = 8 * static_cast<int>(sizeof(T));
    if (width == VectorWidth::avx512) return {run_avx512, 512 / kBits};
    if (width == VectorWidth::avx2) return {run_avx2, 256 / kBits};
#else
    static_cast<void>(width);
#endif
    return kPlain<T>;
}

template <class T>
double measure(int threads) {
    using Clock = std::chrono::steady_clock;
    constexpr int kRuns = 3;
    const Peak<T> peak = peak_for<T>(widest_vectors());
    volatile T x = T{0.5};
    volatile T y = T{1};
    double best_s = 0;
    for (int i = 0; i < kRuns; ++i) {
        const auto start = Clock::now();
        parallel_for(threads, 1, threads, [&](std::int64_t, std::int64_t) {
            volatile T result = peak.run(x, y);
            static_cast<void>(result);
        });
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        best_s = i == 0 ? seconds : std::min(best_s, seconds);
    }
    return 2.0 * peak.lanes * kChains * kSteps * threads / best_s;
}

}  // namespace

std::optional<int> multiply_adds_per_clock(int compute_capability, Type type) {
    const auto known =
        std::ranges::find(kMultiprocessors, compute_capability, &Multiprocessor::compute_capability);
    if (known == kMultiprocessors.end()) return std::nullopt;
    switch (type) {
        case Type::f32:
            return known->f32;
        case Type::f64:
            return known->f64;
        case Type::i32:
            return known->i32;
        default:
            return std::nullopt;
    }
}

std::optional<double> measure_cpu_flops_per_s(Type type, int threads) {
    if (type == Type::f32) return measure<float>(threads);
    if (type == Type::f64) return measure<double>(threads);
    return std::nullopt;
}

}  // namespace gpumat
