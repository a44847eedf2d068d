#include "lib/report/report_sections.hpp"

#include <spdlog/fmt/fmt.h>

#include <set>

#include "lib/measure/bench_export.hpp"

namespace gpumat {

LevelColours::LevelColours(const LogData& data) {
    std::set<std::string> baselines;
    for (const Measured& one : data.measured) {
        if (one.baseline) baselines.insert(one.level);
        if (!one.baseline && one.what == "kernel") learn(one.level);
    }
    for (const RooflinePoint& point : data.probed) {
        if (!baselines.contains(point.level)) learn(point.level);
    }
}

std::string LevelColours::of(const std::string& level) const {
    const auto found = places_.find(level);
    return found == places_.end() ? kGrey : kLevelColours[found->second % kLevelColours.size()];
}

std::string LevelColours::of(const Measured& one) const {
    return one.baseline ? kGrey : of(one.level);
}

void LevelColours::learn(const std::string& level) {
    if (!level.empty()) places_.try_emplace(level, places_.size());
}

std::string or_dash(const std::string& text) {
    return text.empty() ? "-" : text;
}

ReportCell number_cell(const std::optional<double>& value, const std::string& text) {
    return value ? ReportCell{text, value} : ReportCell{"-"};
}

ReportCell ms_cell(const std::optional<double>& ms) {
    return number_cell(ms, four_digits(ms.value_or(0)));
}

/// "~" before what did not settle.
std::string doubted(const std::string& text, bool settled) {
    return (settled ? "" : "~") + text;
}

std::string problem_of(const Measured& one) {
    const bool has_size = one.size.m > 0 || one.size.n > 0;
    return or_dash(one.type) + (has_size ? " " + to_string(one.size) : "");
}

std::string place_of(const Measured& one) {
    return (one.device.empty() ? "" : " on " + one.device) +
           (one.threads > 0 ? fmt::format(" ({} thread{})", one.threads, one.threads == 1 ? "" : "s") : "") +
           (one.cache.empty() ? ", runs" : ", " + one.cache + " cache");
}

std::string plural(std::size_t count, const std::string& noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace gpumat
