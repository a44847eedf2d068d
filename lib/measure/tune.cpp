#include "lib/measure/tune.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/stopwatch.hpp"
#include "lib/choose/device.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/measure/measure_overhead.hpp"
#include "lib/record/record.hpp"

namespace gpumat {
namespace {

using Names = std::vector<std::string>;
using Choices = std::map<std::string, std::vector<std::string>>;

// The limit of the run that only finds the levels that are far behind.
constexpr double kGlanceTimeLimitS = 0.05;

const Tunable& tunable(const Operation& operation) {
    if (operation.tunable != nullptr) return *operation.tunable;
    throw Error(ErrorCode::usage, "a " + std::string(operation.name) + " has nothing to tune");
}

/// A device named for good, so that each bench takes the same.
std::string device_text(const Device& device) {
    return device.gpu == nullptr ? "cpu" : "gpu:" + std::to_string(device.gpu->info().index);
}

/// The levels that may win.
Names entrants(const Operation& operation, DeviceKind device, const Registry& registry) {
    Names names;
    for (const Level* level : registry.levels(operation, device)) {
        if (level->role == Role::rung) names.emplace_back(level->name);
    }
    return names;
}

/// The choices of the parameters that do not change the result.
Choices tunable_parameters(const Level& level) {
    Choices parameters;
    for (const Parameter& parameter : level.parameters) {
        if (parameter.tunable)
            parameters[std::string(parameter.name)] = {parameter.choices.begin(), parameter.choices.end()};
    }
    return parameters;
}

/// The sizes to measure for one type, with the class that each stands for.
std::vector<std::pair<SizeClass, Extents>> sizes_for(const TuneOptions& options, Type type,
                                                     DeviceKind device) {
    const Tunable& classes = tunable(*options.operation);
    std::vector<std::pair<SizeClass, Extents>> sizes;
    if (options.sizes.empty()) {
        for (const SizeClass size_class : classes.classes(type))
            sizes.emplace_back(size_class, classes.representative(type, size_class, device));
        return sizes;
    }
    for (const Extents& size : options.sizes) {
        const auto size_class = classes.class_of(
            {.operation = options.operation, .type = type, .m = size.m, .n = size.n, .k = size.k});
        if (!size_class) {
            throw Error(ErrorCode::usage, "--size " + to_string(size) +
                                              ": so few rows or columns are left to the levels' own tables");
        }
        for (const auto& [other_class, other] : sizes) {
            if (other_class != *size_class) continue;
            throw Error(ErrorCode::usage, "--size: " + to_string(other) + " and " + to_string(size) + " of " +
                                              std::string(name_of(type)) + " are both " +
                                              std::string(name_of(*size_class)) +
                                              "; only one size can stand for a class");
        }
        sizes.emplace_back(*size_class, size);
    }
    return sizes;
}

/// Measures on one device.
class Tuner {
  public:
    Tuner(const TuneOptions& options, const Registry& registry, const TuneListener& listener,
          const BenchFunction& bench, const Device& device)
        : options_(options),
          registry_(registry),
          listener_(listener),
          bench_(bench),
          device_(device.kind),
          device_text_(device_text(device)),
          date_(origin_of_this_run().time.substr(0, std::string_view("2026-01-01").size())) {}

    /// The winner of every class; of none where no level takes the type.
    void tune(Type type, Tuning& tuning) {
        const auto sizes = sizes_for(options_, type, device_);
        Names close = close_levels(type);
        if (is_late() && listener_.late) listener_.late(sizes.size());
        if ((is_late() || close.empty()) && listener_.ended) listener_.ended(sizes.size());
        if (is_late() || close.empty()) return;
        for (const auto& [size_class, size] : sizes) {
            const auto winner = fastest_that_fits(type, size_class, size, close);
            if (listener_.ended) listener_.ended(1);
            if (!winner) continue;
            TunedLevel entry = {.element = tunable(*options_.operation).element_kind(type),
                                .size_class = size_class,
                                .size = size,
                                .level = winner->level,
                                .parameters = winner->parameters,
                                .median_ms = *winner->median_ms,
                                .date = date_};
            tuning.put(entry);
            if (listener_.tuned) listener_.tuned(entry);
        }
    }

    [[nodiscard]] bool any_failed() const { return any_failed_; }

  private:
    /// Then levels may be missing from what was measured last.
    [[nodiscard]] bool is_late() const {
        return options_.deadline && std::chrono::steady_clock::now() >= *options_.deadline;
    }

    /// The rows that ran and were right.
    std::vector<BenchRow> measure(Type type, const Extents& size, const Names& levels,
                                  const Choices& parameters, double time_limit_s) {
        if (is_late()) return {};
        const BenchOptions asked = {.operation = options_.operation,
                                    .sizes = {size},
                                    .types = {type},
                                    .levels = levels,
                                    .against = {"none"},
                                    .device = device_text_,
                                    .parameters = parameters,
                                    .time_limit_s = time_limit_s,
                                    .deadline = options_.deadline,
                                    .verify = VerifyMode::freivalds,
                                    .threads = options_.threads,
                                    .seed = options_.seed,
                                    .memory_limit = options_.memory_limit,
                                    .command_line = {}};
        std::vector<BenchRow> rows;
        const auto keep = [&](const BenchRow& row) {
            if (row.failed()) {
                any_failed_ = true;
                if (listener_.failed) listener_.failed(row);
            } else if (row.median_ms) {
                rows.push_back(row);
            }
        };
        bench_(asked, registry_,
               {.head = nullptr, .row = keep, .progress = listener_.progress, .say = listener_.say});
        return rows;
    }

    static double best_ms(const std::vector<BenchRow>& rows) {
        return *std::ranges::min_element(rows, {}, [](const BenchRow& row) {
                    return *row.median_ms;
                })->median_ms;
    }

    /// The levels that are not far behind on a small problem.
    Names close_levels(Type type) {
        const Extents size = tunable(*options_.operation).representative(type, SizeClass::small, device_);
        const auto rows = measure(type, size, entrants(*options_.operation, device_, registry_), {},
                                  std::min(kGlanceTimeLimitS, options_.time_limit_s));
        Names close;
        for (const BenchRow& row : rows) {
            if (*row.median_ms <= kFarBehind * best_ms(rows)) close.push_back(row.level);
        }
        return close;
    }

    /// Leaves out of what follows the levels that are far behind on a problem of some size, where each run of
    /// them costs more than it may tell.
    void drop_hopeless(const std::vector<BenchRow>& rows, Names& levels) const {
        const double best = best_ms(rows);
        for (const BenchRow& row : rows) {
            const bool slow = *row.median_ms > options_.time_limit_s * 1e3;
            if (*row.median_ms <= (slow ? kFarBehindWhereSlow : kFarBehind) * best) continue;
            tell(listener_.say, Severity::detail,
                 fmt::format("{} {} is {:.3g} times slower than the fastest on {}, and left out from here on",
                             row.level, name_of(row.type), *row.median_ms / best, to_string(row.size)));
            std::erase(levels, row.level);
        }
    }

    /// Where the problem is of medium size or large, `levels` loses those that are far behind.
    std::optional<BenchRow> fastest_that_fits(Type type, SizeClass size_class, const Extents& size,
                                              Names& levels) {
        try {
            const auto rows = measure(type, size, levels, {}, options_.time_limit_s);
            if (is_late() && listener_.late) listener_.late(1);
            if (is_late() || rows.empty()) return std::nullopt;
            if (size_class == SizeClass::medium || size_class == SizeClass::large)
                drop_hopeless(rows, levels);
            return with_best_parameters(type, size, rows);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::memory) throw;
            if (listener_.skipped) listener_.skipped(size_class, size, error.what());
            return std::nullopt;
        }
    }

    BenchRow with_best_parameters(Type type, const Extents& size, std::vector<BenchRow> rows) {
        const auto by_time = [](const BenchRow& row) { return *row.median_ms; };
        BenchRow best = *std::ranges::min_element(rows, {}, by_time);
        const Level& level = *registry_.find(*options_.operation, device_, best.level);
        const Choices parameters = tunable_parameters(level);
        if (parameters.empty()) return best;
        rows = measure(type, size, {best.level}, parameters, options_.time_limit_s);
        if (is_late() || rows.empty()) return best;
        return *std::ranges::min_element(rows, {}, by_time);
    }

    const TuneOptions& options_;
    const Registry& registry_;
    const TuneListener& listener_;
    const BenchFunction& bench_;
    DeviceKind device_;
    std::string device_text_;
    std::string date_;
    bool any_failed_ = false;
};

DeviceChoice device_for(const TuneOptions& options, const Registry& registry) {
    return choose_device(options.device, *options.operation, "auto", options.threads, registry);
}

std::string require_folder(const std::optional<std::string>& path) {
    if (path) return *path;
    throw Error(ErrorCode::usage,
                "there is no folder for the cache: GPUMAT_CACHE is empty, or neither it nor "
                "XDG_CACHE_HOME nor HOME names one");
}

std::vector<Type> types_of(const TuneOptions& options) {
    const auto all = tunable(*options.operation).types;
    return options.types.empty() ? std::vector<Type>(all.begin(), all.end()) : options.types;
}

TuningFile open_tuning(const Operation& operation, const Device& device) {
    TuningFile file;
    const std::string device_id = tuned_device_id(device);
    file.path = require_folder(tuning_path(operation, device_id));
    file.tuning = {.operation = &operation,
                   .device_id = device_id,
                   .device_name = recorded_device(device).name,
                   .software = tuned_software(device),
                   .entries = {}};
    if (auto tuning = load_tuning(file.path, operation, device, file.why_not))
        file.tuning = *std::move(tuning);
    return file;
}

}  // namespace

TuneCount count_of(const TuneOptions& options, const Registry& registry) {
    const DeviceKind device = device_for(options, registry).device.kind;
    const std::size_t levels = entrants(*options.operation, device, registry).size();
    TuneCount count;
    for (const Type type : types_of(options)) {
        const std::size_t classes = sizes_for(options, type, device).size();
        count.classes += classes;
        count.rows += (classes + 1) * levels;  // and those that find the levels that are far behind
    }
    return count;
}

TuningFile open_tuning(const TuneOptions& options, const Registry& registry) {
    return open_tuning(*options.operation, device_for(options, registry).device);
}

OverheadFile open_overhead(const TuneOptions& options, const Registry& registry) {
    const DeviceChoice choice = device_for(options, registry);
    OverheadFile file;
    file.path = require_folder(overhead_path(tuned_device_id(choice.device)));
    file.overhead = load_overhead(file.path, choice.device, file.why_not);
    return file;
}

void tune_overhead(const TuneOptions& options, const Registry& registry) {
    const Stopwatch watch;
    const DeviceChoice choice = device_for(options, registry);
    const double found_ms = watch.elapsed_ms();
    const std::string path = require_folder(overhead_path(tuned_device_id(choice.device)));
    require_savable(path);
    DeviceOverhead overhead = measure_overhead(choice.device, options.threads,
                                               options.memory_limit.value_or(available_memory_bytes()) / 4);
    overhead.start_ms += found_ms;
    save_overhead(path, choice.device, overhead);
}

int run_tune(const TuneOptions& options, const Registry& registry, const TuneListener& listener,
             const BenchFunction& bench) {
    const DeviceChoice choice = device_for(options, registry);
    TuningFile file = open_tuning(*options.operation, choice.device);
    save_tuning(file.path, file.tuning);  // a folder that cannot be written to costs no measurement
    Tuner tuner(options, registry, listener, bench, choice.device);
    for (const Type type : types_of(options)) {
        tuner.tune(type, file.tuning);
        save_tuning(file.path, file.tuning);
    }
    return tuner.any_failed() ? static_cast<int>(ErrorCode::differs) : 0;
}

}  // namespace gpumat
