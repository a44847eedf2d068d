#include <algorithm>

#include "lib/measure/bench_sampling.hpp"
#include "lib/report/report_data.hpp"

namespace gpumat {

bool Measured::settled() const {
    if (!median_ms || !interval_ms) return false;
    return MedianInterval{*median_ms, interval_ms->low, interval_ms->high}.spread() <= kSettledSpread;
}

double Measured::rate(double ms) const {
    return (by_arithmetic ? flops : bytes) / ms / 1e6;
}

std::optional<double> Measured::rate() const {
    if (!median_ms || rate(*median_ms) <= 0) return std::nullopt;
    return rate(*median_ms);
}

std::optional<Range> Measured::rate_interval() const {
    if (!interval_ms) return std::nullopt;
    return Range{rate(interval_ms->high), rate(interval_ms->low)};
}

std::vector<Range> LoggedRun::rest() const {
    std::vector<Range> gaps;
    if (!total_ms || stages.empty()) return gaps;
    std::vector<RunStage> by_begin = stages;
    std::ranges::sort(by_begin, {}, [](const RunStage& stage) { return stage.span.low; });
    double covered = 0;
    for (const RunStage& stage : by_begin) {
        if (stage.span.low > covered) gaps.push_back({covered, stage.span.low});
        covered = std::max(covered, stage.span.high);
    }
    if (*total_ms > covered) gaps.push_back({covered, *total_ms});
    return gaps;
}

std::optional<double> LoggedRun::rest_ms() const {
    if (recorded_rest_ms || !total_ms || stages.empty()) return recorded_rest_ms;
    double sum = 0;
    for (const Range& gap : rest()) sum += gap.high - gap.low;
    return sum;
}

}  // namespace gpumat
