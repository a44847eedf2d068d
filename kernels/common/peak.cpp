#include "kernels/common/peak.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector.hpp"
#include "kernels/common/vector_width.hpp"

namespace gpumat {
namespace {

struct LanesOf {
    int compute_capability;
    int f32;
    int f64;
    int i32;
};
constexpr std::array kLanes = {
    LanesOf{75, 64, 2, 64},  LanesOf{80, 64, 32, 64}, LanesOf{86, 128, 2, 64},
    LanesOf{87, 128, 2, 64}, LanesOf{89, 128, 2, 64}, LanesOf{90, 128, 64, 64},
};

// Sums that do not wait for each other: two multiply-adds a clock of four to five clocks each need ten, and
// fit in 16 registers; four a clock, as large ARM cores start, need sixteen.
#ifdef __x86_64__
constexpr int kChains = 12;
#else
constexpr int kChains = 16;
#endif
constexpr std::int64_t kSteps = 1'000'000;

/// kSteps multiply-adds on each of kChains vectors of `kBytes` bytes; returns what came out, so that nothing
/// can be left out. x and y are such that the sums stay finite. Compiled into each of the functions below for
/// its instructions.
template <int kBytes, class T>
GPUMAT_INLINE T run_chains(T x, T y) {
    using Sum = Vector<T, kBytes / sizeof(T)>;
    Sum sums[kChains];
    // All different, or the compiler would find that one chain is all of them.
    for (int i = 0; i < kChains; ++i) sums[i] = Sum{} + static_cast<T>(i);
    for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
        for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * x + y;
    }
    for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
    return sums[0][0];
}

template <class T>
T run_plain(T x, T y) {
    return run_chains<16>(x, y);
}
#ifdef __x86_64__
template <class T>
GPUMAT_AVX2 T run_avx2(T x, T y) {
    return run_chains<32>(x, y);
}
template <class T>
GPUMAT_AVX512 T run_avx512(T x, T y) {
    return run_chains<64>(x, y);
}
#endif

template <class T>
struct Peak {
    T (*run)(T x, T y);
    int bytes;  ///< of a vector
};

template <class T>
Peak<T> peak_for(VectorWidth width) {
#ifdef __x86_64__
    if (width == VectorWidth::avx512) return {run_avx512<T>, 64};
    if (width == VectorWidth::avx2) return {run_avx2<T>, 32};
#else
    static_cast<void>(width);
#endif
    return {run_plain<T>, 16};
}

template <class T>
double measure(int threads) {
    using Clock = std::chrono::steady_clock;
    constexpr int kRuns = 3;
    const Peak<T> peak = peak_for<T>(widest_vectors());
    volatile T x = T{0.5};
    volatile T y = T{1};
    const double lanes = static_cast<double>(peak.bytes) / sizeof(T);
    const double operations = 2.0 * lanes * kChains * kSteps;
    std::vector<double> rates(static_cast<std::size_t>(threads));
    double best = 0;
    for (int i = 0; i < kRuns; ++i) {
        // Each thread has its own clock: starting many takes as long as what they do.
        parallel_for(threads, 1, threads, [&](std::int64_t thread, std::int64_t) {
            const auto start = Clock::now();
            volatile T result = peak.run(x, y);
            static_cast<void>(result);
            rates[static_cast<std::size_t>(thread)] =
                operations / std::chrono::duration<double>(Clock::now() - start).count();
        });
        best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
    }
    return best;
}

}  // namespace

std::optional<int> multiply_adds_per_clock(int compute_capability, Type type) {
    const auto known = std::ranges::find(kLanes, compute_capability, &LanesOf::compute_capability);
    if (known == kLanes.end()) return std::nullopt;
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
