#include "lib/report/report_compare.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "core/error.hpp"

namespace gpumat {
namespace {

using ComparedKey = std::tuple<std::string, std::string, std::string, std::string, std::int64_t, std::int64_t,
                               std::int64_t, std::string, bool, bool, std::pair<std::string, int>>;

bool has_several_devices(const LogData& data) {
    std::set<std::pair<std::string, int>> devices;
    for (const Measured& one : data.measured) devices.emplace(one.device, one.threads);
    return devices.size() > 1;
}

ComparedKey key_of(const Measured& one, bool with_device) {
    const bool on_gpu = one.threads == 0;
    return {one.what,
            one.op,
            one.label,
            one.type,
            one.size.m,
            one.size.n,
            one.size.k,
            one.cache,
            one.baseline,
            on_gpu,
            with_device ? std::pair(one.device, one.threads) : std::pair<std::string, int>()};
}

Change change_of(const Measured& now, const Measured& before, double threshold) {
    if (!now.interval_ms || !before.interval_ms) return Change::unknown;
    const double ratio = *now.median_ms / *before.median_ms;
    if (now.interval_ms->low > before.interval_ms->high && ratio > 1 + threshold) return Change::slower;
    if (now.interval_ms->high < before.interval_ms->low && ratio < 1 / (1 + threshold)) return Change::faster;
    return now.settled() && before.settled() ? Change::same : Change::unknown;
}

/// What is judged by itself.
std::span<const Measured> repeats_of(const Measured& one) {
    return one.repeats.empty() ? std::span(&one, 1) : std::span(one.repeats);
}

/// The repeat that is slower than all before, the slowest of them; null where there is none.
const Measured* slower_repeat(const Measured& now, const Measured& before, double threshold) {
    const Measured* slowest = nullptr;
    for (const Measured& one : repeats_of(now)) {
        const bool slower = std::ranges::all_of(repeats_of(before), [&](const Measured& other) {
            return change_of(one, other, threshold) == Change::slower;
        });
        if (slower && (slowest == nullptr || *one.median_ms > *slowest->median_ms)) slowest = &one;
    }
    return slowest;
}

bool all_are(Change change, const Measured& now, const Measured& before, double threshold) {
    return std::ranges::all_of(repeats_of(now), [&](const Measured& one) {
        return std::ranges::all_of(repeats_of(before), [&](const Measured& other) {
            return change_of(one, other, threshold) == change;
        });
    });
}

ComparedRow compared(const Measured& now, const Measured& before, double threshold) {
    ComparedRow row = {&now, &before, 1, Change::unknown};
    if (const Measured* const slower = slower_repeat(now, before, threshold)) {
        const auto old = repeats_of(before);
        const auto slowest =
            std::ranges::max_element(old, {}, [](const Measured& one) { return *one.median_ms; });
        row = {slower, &*slowest, 1, Change::slower};
    } else if (!now.failed) {
        for (const Change change : {Change::faster, Change::same})
            if (all_are(change, now, before, threshold)) row.change = change;
    }
    row.ratio = *row.now->median_ms / *row.before->median_ms;
    return row;
}

}  // namespace

std::string_view name_of(Change change) {
    switch (change) {
        case Change::slower:
            return "SLOWER";
        case Change::faster:
            return "FASTER";
        case Change::same:
            return "SAME";
        default:
            return "UNKNOWN";
    }
}

std::size_t LogComparison::count(Change change) const {
    return static_cast<std::size_t>(std::ranges::count(rows, change, &ComparedRow::change));
}

LogComparison compare_logs(const LogData& now, const LogData& before, double threshold) {
    const bool with_device = has_several_devices(now) || has_several_devices(before);
    std::map<ComparedKey, const Measured*> known;
    for (const Measured& one : before.measured) {
        if (one.median_ms) known[key_of(one, with_device)] = &one;
    }
    LogComparison comparison = {.threshold = threshold, .rows = {}};
    for (const Measured& one : now.measured) {
        if (!one.median_ms) continue;
        const auto found = known.find(key_of(one, with_device));
        if (found == known.end()) {
            comparison.only_now.push_back(&one);
            continue;
        }
        comparison.rows.push_back(compared(one, *found->second, threshold));
        known.erase(found);
    }
    for (const auto& [key, one] : known) comparison.only_before.push_back(one);
    if (comparison.rows.empty())
        throw Error(ErrorCode::input,
                    "--against: the logs have nothing in common: no operation was measured in both with the "
                    "same level, type, size and cache");
    std::ranges::stable_sort(comparison.rows, [](const ComparedRow& x, const ComparedRow& y) {
        return std::pair(x.change, -x.ratio) < std::pair(y.change, -y.ratio);
    });
    return comparison;
}

}  // namespace gpumat
