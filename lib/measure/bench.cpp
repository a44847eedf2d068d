#include "lib/measure/bench.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "kernels/check/check.hpp"
#include "kernels/device/nvml.hpp"
#include "lib/choose/auto_level.hpp"
#include "lib/choose/device.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/measure/bench_lineup.hpp"
#include "lib/measure/bench_memory.hpp"
#include "lib/measure/bench_sampling.hpp"
#include "lib/run/executor.hpp"
#include "lib/run/plan/level.hpp"

namespace gpumat {
namespace {

// Warming up takes this part of a row's time limit, and no longer than that.
constexpr double kWarmupShare = 0.05;
constexpr double kMostWarmupMs = 100;

const char* in_place_mark(bool in_place) {
    return in_place ? " in place" : "";
}

std::vector<Problem> problems_of(const BenchOptions& options) {
    std::vector<Problem> problems;
    for (const Type type : options.types) {
        for (const Extents& size : options.sizes) {
            problems.push_back(
                {.operation = options.operation, .type = type, .m = size.m, .n = size.n, .k = size.k});
            make_sparse(options.sparse, problems.back());
        }
    }
    return problems;
}

Problem problem_of(const Entrant& entrant, Problem problem) {
    apply_settings(entrant.settings, problem);
    problem.parameters = entrant.parameters;
    return problem;
}

Parameters settings_of(const Problem& problem, const BenchOptions& options) {
    Parameters settings = problem.choices;
    settings.merge(options.sparse.as_settings(*problem.operation));
    return settings;
}

std::string label_of(const Entrant& entrant, const Problem& problem) {
    return gpumat::label_of(entrant.name, entrant.parameters) + in_place_mark(problem.in_place);
}

/// The problems as the entrants take them: what memory must be there for.
std::vector<Problem> variants_of(const std::vector<Problem>& problems, const std::vector<Entrant>& entrants) {
    std::vector<Problem> variants;
    for (const Problem& problem : problems) {
        const auto first = static_cast<std::ptrdiff_t>(variants.size());
        for (const Entrant& entrant : entrants) {
            Problem variant = problem_of(entrant, problem);
            const auto needs_the_same = [&](const Problem& other) {
                return other.in_place == variant.in_place && other.choices == variant.choices;
            };
            if (std::none_of(variants.begin() + first, variants.end(), needs_the_same))
                variants.push_back(std::move(variant));
        }
    }
    return variants;
}

void append(std::string& text, const std::string& more) {
    text += (text.empty() ? "" : "; ") + more;
}

/// A level's time, to measure gains over.
struct Standing {
    double ms = 0;
    bool settled = false;
};

/// What the rows of one problem are measured against, filled as they come.
struct Standings {
    std::optional<double> yardstick_ms;
    std::optional<double> vendor_ms;
    std::optional<Standing> first;
    std::optional<Standing> previous;
};

/// Runs the rows of a bench on one device.
class Bench {
  public:
    Bench(const BenchOptions& options, const Registry& registry, const Executor& executor,
          const BenchListener& listener, BenchMemory& memory, const GpuMonitor* monitor)
        : options_(options),
          registry_(registry),
          executor_(executor),
          listener_(listener),
          memory_(memory),
          monitor_(monitor) {}

    int run(const std::vector<Entrant>& entrants, const std::vector<Problem>& problems) {
        const std::size_t row_count = entrants.size() * problems.size();
        std::size_t number = 0;
        for (const Problem& problem : problems) {
            Standings standings;
            for (const Entrant& entrant : entrants) {
                if (options_.deadline && std::chrono::steady_clock::now() >= *options_.deadline) break;
                if (!entrant.yardstick) tell_yardsticks(standings);
                tell_progress(entrant, problem, ++number, row_count);
                const Problem variant = problem_of(entrant, problem);
                memory_.load(variant);
                run_row(entrant, variant, standings);
            }
            tell_yardsticks(standings);
        }
        if (failed_) return static_cast<int>(ErrorCode::differs);
        return level_ran_ ? 0 : static_cast<int>(ErrorCode::unsupported);
    }

  private:
    void tell_progress(const Entrant& entrant, const Problem& problem, std::size_t number,
                       std::size_t row_count) const {
        if (!listener_.progress) return;
        listener_.progress({number, row_count,
                            label_of(entrant, problem_of(entrant, problem)) + " " +
                                std::string(name_of(problem.type)) + " " + to_string(problem.extents())});
    }

    void run_row(const Entrant& entrant, const Problem& problem, Standings& standings) {
        BenchRow row = {.operation = problem.operation,
                        .level = entrant.name,
                        .ran = "",
                        .baseline = entrant.baseline,
                        .yardstick = entrant.yardstick,
                        .role = entrant.level != nullptr ? entrant.level->role : Role::rung,
                        .in_place = problem.in_place,
                        .type = problem.type,
                        .size = problem.extents(),
                        .parameters = entrant.parameters,
                        .settings = settings_of(problem, options_)};
        if (problem.is_sparse())
            row.entries = std::accumulate(problem.entries.begin(), problem.entries.end(), std::int64_t{0});
        try {
            measure(entrant, problem, row);
        } catch (const Error& error) {
            row.samples_ms.clear();
            row.reason = error.what();
            // A GPU that failed once refuses everything after it.
            if (error.code() == ErrorCode::device) {
                tell_yardsticks(standings);  // this row may be one of them
                tell(row);
                throw;
            }
        }
        failed_ = failed_ || row.failed();
        level_ran_ = level_ran_ || (!row.baseline && row.ran_at_all());
        derive_rates(problem, row);
        if (entrant.yardstick) {
            if (row.median_ms)
                standings.yardstick_ms =
                    std::min(*row.median_ms, standings.yardstick_ms.value_or(*row.median_ms));
            yardsticks_.push_back(std::move(row));
            return;
        }
        compare(row, standings);
        tell(row);
    }

    /// Which yardstick is the fastest is known only after the last of them.
    void tell_yardsticks(Standings& standings) {
        for (BenchRow& row : std::exchange(yardsticks_, {})) {
            compare(row, standings);
            tell(row);
        }
    }

    void tell(const BenchRow& row) const {
        if (listener_.row) listener_.row(row);
    }

    void measure(const Entrant& entrant, Problem problem, BenchRow& row) {
        const Level* level = entrant.level;
        if (level == nullptr) {
            Choice choice = choose_auto(problem, executor_.device(), registry_);
            level = choice.level;
            problem = std::move(choice.problem);
            row.parameters = problem.parameters;
            row.note = "took '" + std::string(level->name) + "': " + choice.reason;
        }
        row.reason = join(unsupported_reasons(*level, problem, executor_.device()));
        if (!row.reason.empty()) return;

        const std::vector<Launch> launches = executor_.prepare(*level, problem, memory_.sets());
        row.ran = launches.front().level;
        row.details = launches.front().details;

        if (!problem.in_place) memory_.poison_result();
        const double first_ms = executor_.time_ms(launches.front());
        if (problem.structure.result == Storage::csr)
            row.result_entries = problem.result_entries = memory_.result_entries();
        if (options_.verify != VerifyMode::none)
            row.verification = executor_.verify(*level, problem, memory_.on_host());
        if (row.failed())
            return append(row.note, describe_failure(row.verification, problem.operation->result(problem)));
        sample(launches, first_ms, row);
    }

    void sample(const std::vector<Launch>& launches, double first_ms, BenchRow& row) const {
        const double limit_ms = options_.time_limit_s * 1e3;
        // A first run may have loaded the level's code: a library's takes some 100 ms.
        constexpr double kMostLoadingMs = 500;
        if (first_ms >= limit_ms && first_ms < kMostLoadingMs) first_ms = executor_.time_ms(launches.front());
        if (first_ms >= limit_ms) {
            // Longer than all the time there is for the row: the verified run is the sample.
            row.samples_ms = {first_ms};
            append(row.note, "one sample, longer than the time limit");
            return;
        }
        std::size_t turn = 0;
        const auto time_next = [&] {
            memory_.cool();
            return executor_.time_ms(launches[++turn % launches.size()]);
        };
        const Stopwatch watch;
        const double warmup_ms = std::min(kMostWarmupMs, kWarmupShare * limit_ms);
        do {
            time_next();
        } while (watch.elapsed_ms() < warmup_ms);
        const auto throttling = [&] { return monitor_ != nullptr ? monitor_->throttling() : std::string(); };
        Samples samples = take_samples(time_next, throttling, {.time_limit_s = options_.time_limit_s});
        row.samples_ms = std::move(samples.ms);
        row.discarded = samples.discarded;
        note_conditions(samples, row);
    }

    void note_conditions(const Samples& samples, BenchRow& row) const {
        if (samples.discarded > 0) {
            append(row.note, fmt::format("{} samples discarded, clocks throttled by {}", samples.discarded,
                                         samples.throttled_by));
        }
        if (monitor_ == nullptr) return;
        row.clock_mhz = monitor_->clock_mhz();
        row.power_w = monitor_->power_w();
        if (monitor_->at_power_limit()) append(row.note, "at the power limit");
    }

    static void derive_rates(const Problem& problem, BenchRow& row) {
        row.median_ms = median(row.samples_ms);
        if (!row.median_ms) return;
        if (const auto interval = median_interval(row.samples_ms)) {
            row.low_ms = interval->low;
            row.high_ms = interval->high;
            row.settled = interval->spread() <= kSettledSpread;
            if (!*row.settled)
                append(row.note,
                       fmt::format("did not settle: the 95 % interval ends {:.1f} % from the median",
                                   100 * interval->spread()));
        } else {
            row.settled = false;
            if (row.samples_ms.size() > 1)
                append(row.note, fmt::format("did not settle: {} samples are too few for an interval",
                                             row.samples_ms.size()));
        }
        Problem counted = problem;
        counted.result_entries = row.result_entries.value_or(0);
        row.effective_bandwidth_gbps = counted.bytes() / *row.median_ms / 1e6;
        if (row.entries) row.entries_per_s = static_cast<double>(*row.entries) / *row.median_ms * 1e3;
        if (problem.flops() > 0) row.gflops = problem.flops() / *row.median_ms / 1e6;
    }

    /// Shares and gains from the rows before, and this row's place among them.
    static void compare(BenchRow& row, Standings& standings) {
        if (!row.median_ms) return;
        const double ms = *row.median_ms;
        if (row.baseline) {
            if (row.role == Role::vendor) standings.vendor_ms = ms;
        } else {
            const bool settled = row.settled.value_or(false);
            if (const auto& previous = standings.previous) {
                row.gain_over_previous = previous->ms / ms;
                row.gain_over_previous_settled = settled && previous->settled;
            }
            if (const auto& first = standings.first) {
                row.gain_over_first = first->ms / ms;
                row.gain_over_first_settled = settled && first->settled;
            }
            standings.previous = {ms, settled};
            if (!standings.first) standings.first = standings.previous;
        }
        if (standings.yardstick_ms) row.share = *standings.yardstick_ms / ms;
        if (standings.vendor_ms) row.share_of_vendor = *standings.vendor_ms / ms;
    }

    const BenchOptions& options_;
    const Registry& registry_;
    const Executor& executor_;
    const BenchListener& listener_;
    BenchMemory& memory_;
    const GpuMonitor* monitor_;
    std::vector<BenchRow> yardsticks_;  ///< measured, not told yet
    bool failed_ = false;
    bool level_ran_ = false;
};

DeviceChoice device_for(const BenchOptions& options, const Problem& problem, const std::string& level,
                        const Registry& registry) {
    const Operation& operation = *options.operation;
    if (!problem.is_sparse())
        return choose_device(options.device, operation, level, options.threads, registry);
    const std::string device =
        options.device == "auto" ? sparse_device(problem, level, registry) : options.device;
    return choose_device(device, operation, "auto", options.threads, registry);
}

std::shared_ptr<GpuMonitor> open_monitor(const Device& device, const Tell& say) {
    if (device.gpu == nullptr) return nullptr;
    std::string why_not;
    auto monitor = GpuMonitor::open(device.gpu->info().uuid, why_not);
    if (!monitor) tell(say, Severity::detail, "clocks are not watched for throttling: " + why_not);
    return monitor;
}

BenchHead head_of(const BenchOptions& options, const DeviceChoice& choice, const GpuMonitor* monitor,
                  const BenchMemory& memory, const std::vector<Entrant>& entrants,
                  const std::vector<Problem>& problems) {
    const Origin now = origin_of_this_run();
    BenchHead head = {.operation = options.operation,
                      .time = now.time,
                      .version = std::string(now.build.version),
                      .host = now.host,
                      .command_line = options.command_line,
                      .device = recorded_device(choice.device),
                      .device_reason = choice.reason,
                      .driver_release = "",
                      .cache_bytes = memory.cache_bytes(),
                      .settings = settings_of(problem_of(entrants.back(), problems.front()), options),
                      .sparse = options.sparse.described(*options.operation),
                      .in_place = problem_of(entrants.back(), problems.front()).in_place,
                      .hot = options.hot,
                      .time_limit_s = options.time_limit_s};
    if (monitor != nullptr) {
        head.driver_release = monitor->driver_release();
        head.device.power_w = monitor->power_w();
    }
    for (const Entrant& entrant : entrants)
        head.labels.push_back(label_of(entrant, problem_of(entrant, problems.front())));
    head.row_count = entrants.size() * problems.size();
    return head;
}

}  // namespace

std::string label_of(const std::string& level, const Parameters& parameters) {
    std::string label = level;
    for (const auto& [name, value] : parameters) label += " " + name + "=" + value;
    return label;
}

std::string label_of(const BenchRow& row) {
    return label_of(row.level, row.level == "auto" ? Parameters{} : row.parameters) +
           in_place_mark(row.in_place);
}

int run_bench(const BenchOptions& options, const Registry& registry, const BenchListener& listener) {
    // The first level named decides the device where --device does not, as --level does for a run.
    const std::string& first = options.levels.front();
    const Operation& operation = *options.operation;
    const std::string named = first == "all" ? "auto" : first;
    if (named != "auto") find_level(registry, operation, DeviceKind::gpu, named);
    const std::vector<Problem> problems = problems_of(options);
    const DeviceChoice choice = device_for(options, problems.front(), named, registry);
    const std::vector<Entrant> entrants = line_up(options, problems.front(), registry, choice.device.kind);
    const std::vector<Problem> variants = variants_of(problems, entrants);
    const auto monitor = open_monitor(choice.device, listener.say);
    std::uint64_t verification = 0;
    for (const Problem& problem : problems)
        verification = std::max(verification, verification_bytes(problem, options.verify));
    BenchMemory memory(choice.device, variants, options.hot, options.memory_limit, verification, options.seed,
                       options.sparse);
    if (listener.head) listener.head(head_of(options, choice, monitor.get(), memory, entrants, problems));
    const Executor executor(choice.device, {options.verify, std::nullopt, options.threads, options.seed});
    return Bench(options, registry, executor, listener, memory, monitor.get()).run(entrants, problems);
}

}  // namespace gpumat
