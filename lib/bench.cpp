#include "lib/bench.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/nvml.hpp"
#include "lib/auto_level.hpp"
#include "lib/bench_memory.hpp"
#include "lib/bench_sampling.hpp"
#include "lib/core/error.hpp"
#include "lib/core/parallel.hpp"
#include "lib/device.hpp"
#include "lib/plan.hpp"
#include "lib/stopwatch.hpp"

namespace gpumat {
namespace {

using Parameters = std::map<std::string, int, std::less<>>;

// Warming up takes this part of a row's time limit, and no longer than that.
constexpr double kWarmupShare = 0.05;
constexpr double kMostWarmupMs = 100;

/// What gives one row for every problem.
struct Entrant {
    const Level* level = nullptr;  ///< null for auto
    std::string name;
    bool baseline = false;
    bool yardstick = false;  ///< a copy that shares are given of
    bool in_place = false;
    Parameters parameters;
};

const char* in_place_mark(bool in_place) {
    return in_place ? " in place" : "";
}

std::string label_of(const Entrant& entrant) {
    return gpumat::label_of(entrant.name, entrant.parameters) + in_place_mark(entrant.in_place);
}

std::string names_of(const std::vector<const Level*>& levels) {
    std::string names;
    for (const Level* level : levels) names += (names.empty() ? "" : ", ") + std::string(level->name);
    return names.empty() ? "none" : names;
}

DeviceKind other(DeviceKind kind) {
    return kind == DeviceKind::cpu ? DeviceKind::gpu : DeviceKind::cpu;
}

/// Decides which levels and baselines run, with which parameters, in which order.
class Line {
  public:
    Line(const BenchOptions& options, const Registry& registry, DeviceKind device)
        : options_(options), registry_(registry), device_(device) {
        // Baselines go first, so that every level's share can be given at once.
        for (const std::string& name : options.against) add_against(name);
        for (const std::string& name : options.levels) add_level(name);
        refuse_unused_parameters();
    }

    std::vector<Entrant> take() { return std::move(entrants_); }

  private:
    [[nodiscard]] std::vector<const Level*> baselines(DeviceKind kind) const {
        return registry_.baselines(options_.operation, kind);
    }

    [[nodiscard]] const Level* find_level(const std::string& name) const {
        const Level* level = registry_.find(options_.operation, device_, name);
        // One of the other kind of device becomes a row that says so.
        return level != nullptr ? level : registry_.find(options_.operation, other(device_), name);
    }

    [[nodiscard]] const Level* find_baseline(const std::string& name) const {
        for (const DeviceKind kind : {device_, other(device_)}) {
            for (const Level* level : baselines(kind)) {
                if (level->name == name) return level;
            }
        }
        return find_level(name);
    }

    void add(Entrant entrant) {
        const auto same = [&](const Entrant& other) {
            return other.level == entrant.level && other.parameters == entrant.parameters &&
                   other.in_place == entrant.in_place;
        };
        if (std::ranges::none_of(entrants_, same)) entrants_.push_back(std::move(entrant));
    }

    void add_baseline(const Level* level, bool yardstick = false) {
        add({.level = level, .name = std::string(level->name), .baseline = true, .yardstick = yardstick});
    }

    void add_yardsticks() {
        for (const Level* level : baselines(device_)) {
            if (level->name == "memcpy" || level->name == "copy") add_baseline(level, true);
        }
    }

    void add_against(const std::string& name) {
        if (name == "none") {
            if (options_.against.size() > 1)
                throw Error(ErrorCode::usage, "--against none excludes other baselines");
            return;
        }
        add_yardsticks();
        if (name == "all") {
            for (const Level* level : baselines(device_)) add_baseline(level);
            const Level* vendor = registry_.find(options_.operation, device_, "vendor");
            if (vendor != nullptr) add_baseline(vendor);
            return;
        }
        const Level* level = find_baseline(name);
        if (level == nullptr) {
            throw Error(ErrorCode::usage, "--against: there is no " + operation() + " baseline '" + name +
                                              "'; on the " + std::string(name_of(device_)) + ": " +
                                              names_of(baselines(device_)) + ", or any level, all, none");
        }
        add_baseline(level);
    }

    void add_level(const std::string& name) {
        if (name == "auto") return add({.name = "auto", .in_place = options_.in_place});
        if (name == "all") {
            for (const Level* level : registry_.levels(options_.operation, device_)) add_variants(level);
            return;
        }
        const Level* level = find_level(name);
        if (level == nullptr) {
            throw Error(ErrorCode::usage, "--levels: there is no " + operation() + " level '" + name +
                                              "'; on the " + std::string(name_of(device_)) + ": " +
                                              names_of(registry_.levels(options_.operation, device_)) +
                                              ", or all, auto");
        }
        add_variants(level);
    }

    /// One entrant for each combination of the values to try of the parameters that the level has.
    void add_variants(const Level* level) {
        const bool measured = std::ranges::any_of(entrants_, [&](const Entrant& entrant) {
            return entrant.level == level && entrant.baseline && !options_.in_place;
        });
        if (measured) return;
        std::vector<Parameters> combinations = {{}};
        for (const auto& [name, values] : options_.parameters) {
            const auto found = std::ranges::find(level->parameters, name, &Parameter::name);
            if (found == level->parameters.end()) continue;
            used_.push_back(name);
            std::vector<Parameters> more;
            for (const Parameters& combination : combinations) {
                for (const int value : values) {
                    more.push_back(combination);
                    more.back()[name] = value;
                }
            }
            combinations = std::move(more);
        }
        for (Parameters& combination : combinations)
            add({.level = level,
                 .name = std::string(level->name),
                 .in_place = options_.in_place,
                 .parameters = std::move(combination)});
    }

    void refuse_unused_parameters() const {
        for (const auto& [name, values] : options_.parameters) {
            if (std::ranges::find(used_, name) != used_.end()) continue;
            throw Error(ErrorCode::usage, fmt::format("--{0}: none of the levels asked for has a {0}", name));
        }
    }

    [[nodiscard]] std::string operation() const { return std::string(name_of(options_.operation)); }

    const BenchOptions& options_;
    const Registry& registry_;
    DeviceKind device_;
    std::vector<Entrant> entrants_;
    std::vector<std::string> used_;
};

std::vector<Problem> problems_of(const BenchOptions& options) {
    std::vector<Problem> problems;
    for (const Type type : options.types) {
        for (const BenchSize& size : options.sizes) {
            problems.push_back(
                {.operation = options.operation, .type = type, .m = size.m, .n = size.n, .k = size.k});
        }
    }
    return problems;
}

Problem problem_of(const Entrant& entrant, Problem problem) {
    problem.in_place = entrant.in_place;
    problem.parameters = entrant.parameters;
    return problem;
}

/// The problems as the entrants take them: what memory must be there for.
std::vector<Problem> variants_of(const std::vector<Problem>& problems, const std::vector<Entrant>& entrants) {
    std::vector<Problem> variants;
    for (const bool in_place : {false, true}) {
        const auto found = std::ranges::find(entrants, in_place, &Entrant::in_place);
        if (found == entrants.end()) continue;
        for (const Problem& problem : problems) variants.push_back(problem_of(*found, problem));
    }
    return variants;
}

/// A copy's result is its input; compares bit for bit.
Verification verify_copy(const std::byte* in, const std::byte* out, std::size_t row_bytes, std::int64_t rows,
                         int threads) {
    std::atomic<std::int64_t> wrong{0};
    constexpr std::int64_t kRowsAtOnce = 64;
    parallel_for(rows, kRowsAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::size_t at = static_cast<std::size_t>(i) * row_bytes;
            if (std::memcmp(in + at, out + at, row_bytes) != 0) ++wrong;
        }
    });
    Verification verification;
    verification.mode = "full";
    verification.verdict = wrong == 0 ? "passed" : "failed";
    verification.mismatches = wrong;
    return verification;
}

std::string join(const Reasons& reasons) {
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    return text;
}

void append(std::string& text, const std::string& more) {
    text += (text.empty() ? "" : "; ") + more;
}

/// What the rows of one problem are measured against, filled as they come.
struct Standings {
    std::optional<double> copy_ms;
    std::optional<double> vendor_ms;
    std::optional<double> first_ms;
    std::optional<double> previous_ms;
};

/// Runs the rows of a bench on one device.
class Bench {
  public:
    Bench(const BenchOptions& options, const Registry& registry, const Device& device,
          const BenchListener& listener, BenchMemory& memory, const GpuMonitor* monitor)
        : options_(options),
          registry_(registry),
          device_(device),
          listener_(listener),
          memory_(memory),
          monitor_(monitor) {}

    int run(const std::vector<Entrant>& entrants, const std::vector<Problem>& problems) {
        const std::size_t row_count = entrants.size() * problems.size();
        std::size_t number = 0;
        for (const Problem& problem : problems) {
            Standings standings;
            bool loaded = false;
            for (const Entrant& entrant : entrants) {
                if (!entrant.yardstick) tell_yardsticks(standings);
                tell_progress(entrant, problem, ++number, row_count);
                if (!loaded || entrant.in_place) memory_.load(problem_of(entrant, problem));
                loaded = true;  // the baselines go first
                run_row(entrant, problem_of(entrant, problem), standings);
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
        const BenchSize size = {problem.m, problem.n, problem.k};
        listener_.progress(
            {number, row_count,
             label_of(entrant) + " " + std::string(name_of(problem.type)) + " " + to_string(size)});
    }

    void run_row(const Entrant& entrant, const Problem& problem, Standings& standings) {
        BenchRow row = {.operation = problem.operation,
                        .level = entrant.name,
                        .ran = "",
                        .baseline = entrant.baseline,
                        .in_place = entrant.in_place,
                        .type = problem.type,
                        .size = {problem.m, problem.n, problem.k},
                        .parameters = entrant.parameters};
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
                standings.copy_ms = std::min(*row.median_ms, standings.copy_ms.value_or(*row.median_ms));
            yardsticks_.push_back(std::move(row));
            return;
        }
        compare(row, standings);
        tell(row);
    }

    /// Which copy is the faster is known only after the last of them.
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
            Choice choice = choose_auto(problem, device_, registry_);
            level = choice.level;
            problem = std::move(choice.problem);
            row.parameters = problem.parameters;
            row.note = "took '" + std::string(level->name) + "': " + choice.reason;
        }
        row.reason = join(unsupported_reasons(*level, problem, device_));
        if (!row.reason.empty()) return;

        std::vector<Launch> launches;
        for (const Operands& operands : memory_.sets())
            launches.push_back(prepare_launch(*level, problem, operands, device_));
        row.ran = launches.front().level;
        row.details = launches.front().details;

        if (!problem.in_place) memory_.poison_result();
        const double first_ms = time_ms(launches.front());
        verify(*level, problem, row);
        if (!row.failed()) sample(launches, first_ms, row);
    }

    [[nodiscard]] double time_ms(const Launch& launch) const {
        if (device_.gpu != nullptr) return device_.gpu->time_ms(launch.run);
        const Stopwatch watch;
        launch.run();
        return watch.elapsed_ms();
    }

    void verify(const Level& level, const Problem& problem, BenchRow& row) {
        if (options_.verify == VerifyMode::none) return;
        const VerifyOptions how = {options_.verify, std::nullopt, options_.threads, options_.seed};
        const Operands host = memory_.on_host();
        const auto* in = static_cast<const std::byte*>(host.a);
        auto* out = static_cast<std::byte*>(host.c);
        if (problem.operation == Operation::multiply) {
            row.verification = verify_multiply(problem, host, how);
        } else if (level.copies) {
            row.verification =
                verify_copy(in, out, static_cast<std::size_t>(problem.n) * size_of(problem.type), problem.m,
                            options_.threads);
        } else {
            row.verification =
                verify_transpose(MatrixView{problem.type, {problem.m, problem.n}, problem.n, in},
                                 MatrixView{problem.type, {problem.n, problem.m}, problem.m, out}, how);
        }
        if (row.failed()) append(row.note, describe_failure(row.verification));
    }

    static std::string describe_failure(const Verification& verification) {
        std::string text = fmt::format("{} {} differ", verification.mismatches,
                                       verification.mode == "freivalds" ? "rows" : "elements");
        if (verification.worst) {
            const WorstElement& worst = *verification.worst;
            text += fmt::format(", the worst at row {}, column {}: computed {}, expected {}", worst.row + 1,
                                worst.col + 1, worst.computed, worst.expected);
        }
        return text;
    }

    void sample(const std::vector<Launch>& launches, double first_ms, BenchRow& row) const {
        const double limit_ms = options_.time_limit_s * 1e3;
        if (first_ms >= limit_ms) {
            // Longer than all the time there is for the row: the verified run is the sample.
            row.samples_ms = {first_ms};
            append(row.note, "one sample, longer than the time limit");
            return;
        }
        std::size_t turn = 0;
        const auto time_next = [&] {
            memory_.cool();
            return time_ms(launches[++turn % launches.size()]);
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
        }
        row.effective_bandwidth_gbps = problem.bytes() / *row.median_ms / 1e6;
        if (problem.flops() > 0) row.gflops = problem.flops() / *row.median_ms / 1e6;
    }

    /// Shares and gains from the rows before, and this row's place among them.
    static void compare(BenchRow& row, Standings& standings) {
        if (!row.median_ms) return;
        const double ms = *row.median_ms;
        if (row.baseline) {
            if (row.level == "vendor") standings.vendor_ms = ms;
        } else {
            if (standings.previous_ms) row.gain_over_previous = *standings.previous_ms / ms;
            if (standings.first_ms) row.gain_over_first = *standings.first_ms / ms;
            standings.previous_ms = ms;
            if (!standings.first_ms) standings.first_ms = ms;
        }
        if (standings.copy_ms) row.share_of_copy = *standings.copy_ms / ms;
        if (standings.vendor_ms) row.share_of_vendor = *standings.vendor_ms / ms;
    }

    const BenchOptions& options_;
    const Registry& registry_;
    const Device& device_;
    const BenchListener& listener_;
    BenchMemory& memory_;
    const GpuMonitor* monitor_;
    std::vector<BenchRow> yardsticks_;  ///< measured, not told yet
    bool failed_ = false;
    bool level_ran_ = false;
};

std::unique_ptr<GpuMonitor> open_monitor(const Device& device) {
    if (device.gpu == nullptr) return nullptr;
    std::string why_not;
    auto monitor = GpuMonitor::open(device.gpu->info().uuid, why_not);
    if (!monitor) spdlog::debug("clocks are not watched for throttling: {}", why_not);
    return monitor;
}

BenchHead head_of(const BenchOptions& options, const DeviceChoice& choice, const GpuMonitor* monitor,
                  const BenchMemory& memory, const std::vector<Entrant>& entrants, std::size_t problems) {
    const RunRecord now = start_record();
    BenchHead head = {.operation = options.operation,
                      .time = now.time,
                      .version = now.version,
                      .host = now.host,
                      .command_line = options.command_line,
                      .device = recorded_device(choice.device),
                      .device_reason = choice.reason,
                      .driver_release = "",
                      .cache_bytes = memory.cache_bytes(),
                      .in_place = options.in_place,
                      .hot = options.hot,
                      .time_limit_s = options.time_limit_s};
    if (monitor != nullptr) {
        head.driver_release = monitor->driver_release();
        head.device.power_w = monitor->power_w();
    }
    for (const Entrant& entrant : entrants) head.labels.push_back(label_of(entrant));
    head.row_count = entrants.size() * problems;
    return head;
}

}  // namespace

std::string label_of(const std::string& level, const Parameters& parameters) {
    std::string label = level;
    for (const auto& [name, value] : parameters) label += " " + name + "=" + std::to_string(value);
    return label;
}

std::string label_of(const BenchRow& row) {
    return label_of(row.level, row.level == "auto" ? Parameters{} : row.parameters) +
           in_place_mark(row.in_place);
}

int run_bench(const BenchOptions& options, const Registry& registry, const BenchListener& listener) {
    if (options.in_place && options.operation != Operation::transpose)
        throw Error(ErrorCode::usage, "--in-place: only a transpose works in place");
    // The first level named decides the device where --device does not, as --level does for a run.
    const std::string& first = options.levels.front();
    const DeviceChoice choice = choose_device(options.device, options.operation,
                                              first == "all" ? "auto" : first, options.threads, registry);
    const std::vector<Entrant> entrants = Line(options, registry, choice.device.kind).take();
    const std::vector<Problem> problems = problems_of(options);
    const auto monitor = open_monitor(choice.device);
    std::uint64_t verification = 0;
    for (const Problem& problem : problems)
        verification = std::max(verification, verification_bytes(problem, options.verify));
    BenchMemory memory(choice.device, variants_of(problems, entrants), options.hot, options.memory_limit,
                       verification, options.seed);
    if (listener.head)
        listener.head(head_of(options, choice, monitor.get(), memory, entrants, problems.size()));
    return Bench(options, registry, choice.device, listener, memory, monitor.get()).run(entrants, problems);
}

}  // namespace gpumat
