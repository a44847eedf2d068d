#include "lib/record/timeline.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace gpumat {
namespace {

constexpr int kBarColumns = 28;

/// The time that [begin, end) and the span have in common.
double overlap_ms(double begin_ms, double end_ms, double span_begin_ms, double span_end_ms) {
    return std::max(0.0, std::min(end_ms, span_end_ms) - std::max(begin_ms, span_begin_ms));
}

std::string bar_of(const StageTime& stage, double total_ms) {
    std::string bar;
    const double column_ms = total_ms / kBarColumns;
    for (int column = 0; column < kBarColumns; ++column) {
        const double begin_ms = column * column_ms;
        const double busy_ms = stage.activity.busy_ms(begin_ms, begin_ms + column_ms);
        const bool between = overlap_ms(stage.begin_ms, stage.end_ms, begin_ms, begin_ms + column_ms) > 0;
        bar += busy_ms >= column_ms / 2 ? '#' : busy_ms > column_ms / 100 ? '+' : between ? '.' : ' ';
    }
    return bar;
}

}  // namespace

void Activity::add(double begin_ms, double end_ms) {
    while (end_ms > span_ms_ * static_cast<double>(busy_ms_.size())) {
        for (std::size_t i = 0; i < busy_ms_.size() / 2; ++i)
            busy_ms_[i] = busy_ms_[2 * i] + busy_ms_[2 * i + 1];
        std::fill(busy_ms_.begin() + busy_ms_.size() / 2, busy_ms_.end(), 0.0F);
        span_ms_ *= 2;
    }
    for (auto span = static_cast<std::size_t>(begin_ms / span_ms_); span < busy_ms_.size(); ++span) {
        const double from_ms = static_cast<double>(span) * span_ms_;
        if (from_ms >= end_ms) break;
        busy_ms_[span] += static_cast<float>(overlap_ms(begin_ms, end_ms, from_ms, from_ms + span_ms_));
    }
}

double Activity::busy_ms(double begin_ms, double end_ms) const {
    double sum_ms = 0;
    for (auto span = static_cast<std::size_t>(std::max(0.0, begin_ms / span_ms_)); span < busy_ms_.size();
         ++span) {
        const double from_ms = static_cast<double>(span) * span_ms_;
        if (from_ms >= end_ms) break;
        sum_ms += busy_ms_[span] * overlap_ms(begin_ms, end_ms, from_ms, from_ms + span_ms_) / span_ms_;
    }
    return sum_ms;
}

void StageClock::start() {
    const std::lock_guard lock(timeline_.mutex_);
    started_ms_ = timeline_.elapsed_ms();
    if (!ran_) time_.begin_ms = time_.end_ms = started_ms_;
    ran_ = works_ = true;
    if (timeline_.working_++ == 0) timeline_.since_ms_ = started_ms_;
}

void StageClock::stop() {
    const std::lock_guard lock(timeline_.mutex_);
    time_ = time_until(timeline_.elapsed_ms());
    works_ = false;
    if (--timeline_.working_ == 0) timeline_.worked_ms_ += time_.end_ms - timeline_.since_ms_;
}

StageTime StageClock::time_until(double now_ms) const {
    StageTime time = time_;
    if (!works_) return time;
    time.end_ms = now_ms;
    time.busy_ms += now_ms - started_ms_;
    time.activity.add(started_ms_, now_ms);
    return time;
}

double Timeline::worked_ms() const {
    const std::lock_guard lock(mutex_);
    return worked_ms_ + (working_ > 0 ? elapsed_ms() - since_ms_ : 0);
}

std::vector<StageTime> Timeline::stages() const {
    const std::lock_guard lock(mutex_);
    const double now_ms = elapsed_ms();
    std::vector<StageTime> ran;
    for (const StageClock* clock :
         {&open, &prepare, &read, &host_to_device, &kernel, &device_to_host, &verify, &hash, &write})
        if (clock->ran_) ran.push_back(clock->time_until(now_ms));
    return ran;
}

const StageTime* bounding_stage(const std::vector<StageTime>& stages) {
    const auto longest =
        std::max_element(stages.begin(), stages.end(),
                         [](const StageTime& x, const StageTime& y) { return x.busy_ms < y.busy_ms; });
    return longest == stages.end() ? nullptr : &*longest;
}

std::vector<std::string> draw_timeline(const std::vector<StageTime>& stages, double rest_ms,
                                       double total_ms) {
    std::vector<std::string> lines = {fmt::format("{:<14}{:>9}{:>9}{:>9} |{:{}}|", "stage, ms", "begin",
                                                  "busy", "waiting", "", kBarColumns)};
    for (const StageTime& stage : stages) {
        lines.push_back(fmt::format("{:<14}{:>9.2f}{:>9.2f}{:>9.2f} |{}|", stage.name, stage.begin_ms,
                                    stage.busy_ms, stage.waiting_ms(), bar_of(stage, total_ms)));
    }
    lines.push_back(fmt::format("{:<23}{:>9.2f}", "rest: no stage worked", rest_ms));
    lines.push_back(fmt::format("{:<23}{:>9.2f}", "total", total_ms));
    if (const StageTime* const bounding = bounding_stage(stages))
        lines.push_back("bounded by: " + bounding->name);
    return lines;
}

}  // namespace gpumat
