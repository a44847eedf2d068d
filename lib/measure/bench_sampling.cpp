#include "lib/measure/bench_sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/stopwatch.hpp"

namespace gpumat {
namespace {

constexpr double kTail = 0.025;  // each side of a 95 % interval
constexpr double kBatchMs = 20;  // asking for throttling costs some of the time that a sample takes
constexpr std::size_t kBatchSamples = 32;

/// The largest k with P(X < k) ≤ 2.5 % for X binomial(n, ½): the interval runs from the k-th smallest to
/// the k-th largest. 0 where there is none.
std::size_t rank_of_bound(std::size_t n) {
    const auto count = static_cast<double>(n);
    double cumulative = 0;
    for (std::size_t k = 0; k < n; ++k) {
        const auto successes = static_cast<double>(k);
        cumulative += std::exp(std::lgamma(count + 1) - std::lgamma(successes + 1) -
                               std::lgamma(count - successes + 1) - count * std::log(2.0));
        if (cumulative > kTail) return k;
    }
    return 0;
}

}  // namespace

double MedianInterval::spread() const {
    return std::max(high - median, median - low) / median;
}

std::optional<MedianInterval> median_interval(std::vector<double> samples) {
    const std::size_t n = samples.size();
    const std::size_t rank = rank_of_bound(n);
    if (rank == 0) return std::nullopt;
    std::ranges::sort(samples);
    const double median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
    return MedianInterval{median, samples[rank - 1], samples[n - rank]};
}

Samples take_samples(const std::function<double()>& time_one_ms,
                     const std::function<std::string()>& throttling, const SamplingLimits& limits) {
    Samples samples;
    const Stopwatch watch;
    const double limit_ms = limits.time_limit_s * 1e3;
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, limits.most));
    do {
        std::vector<double> batch;
        const Stopwatch batch_watch;
        do {
            batch.push_back(time_one_ms());
        } while (batch.size() < kBatchSamples && batch_watch.elapsed_ms() < kBatchMs &&
                 samples.ms.size() + batch.size() < most && watch.elapsed_ms() < limit_ms);
        if (std::string why = throttling(); !why.empty()) {
            samples.discarded += static_cast<std::int64_t>(batch.size());
            samples.throttled_by = std::move(why);
            continue;
        }
        samples.ms.insert(samples.ms.end(), batch.begin(), batch.end());
        const auto interval = median_interval(samples.ms);
        samples.settled = interval && interval->spread() <= limits.spread;
    } while (!samples.settled && samples.ms.size() < most && watch.elapsed_ms() < limit_ms);
    return samples;
}

}  // namespace gpumat
