#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpumat {

/// The median of samples and the interval in which the true median lies.
struct MedianInterval {
    double median = 0;
    double low = 0;
    double high = 0;

    /// The farther end's distance from the median, as a fraction of it.
    [[nodiscard]] double spread() const;
};

/// The 95 % confidence interval of the median from order statistics, which assumes nothing about the
/// distribution: the number of samples under the true median is binomial(n, ½), so the k-th smallest and
/// the k-th largest enclose it with probability 1 − 2·P(X < k). Absent under 6 samples, where not even
/// the smallest and the largest reach 95 %.
std::optional<MedianInterval> median_interval(std::vector<double> samples);

/// A median is settled where the interval ends within this fraction of it.
inline constexpr double kSettledSpread = 0.01;

struct SamplingLimits {
    double time_limit_s = 2;
    double spread = kSettledSpread;
    std::int64_t most = 10'000;  ///< samples
};

struct Samples {
    std::vector<double> ms;
    std::int64_t discarded = 0;  ///< taken while clocks were throttled
    std::string throttled_by;    ///< why, where any were discarded
    bool settled = false;        ///< the spread was reached, not the time limit
};

/// Calls `time_one_ms` until the median is known within the spread or the time limit is reached, and at
/// least once. Samples come in batches of some milliseconds; `throttling` is asked after each one, and
/// where it answers with a reason the batch is discarded.
Samples take_samples(const std::function<double()>& time_one_ms,
                     const std::function<std::string()>& throttling, const SamplingLimits& limits);

}  // namespace gpumat
