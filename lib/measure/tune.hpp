#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/registry.hpp"
#include "lib/choose/tuning_cache.hpp"
#include "lib/measure/bench.hpp"

namespace gpumat {

/// A level this many times slower than the fastest on a small problem is left out of the rest; on a problem
/// of medium size or a large one, of what follows.
inline constexpr double kFarBehind = 4;
/// The same on those two for a level of which one run takes longer than the time limit.
inline constexpr double kFarBehindWhereSlow = 2;

struct TuneOptions {
    const Operation* operation = nullptr;
    std::vector<Type> types;      ///< empty: one for each element kind that there is
    std::vector<Extents> sizes;   ///< each stands for its class; empty: the representative of every class
    std::string device = "auto";  ///< auto, cpu, gpu, gpu:N
    double time_limit_s = 0.1;    ///< for the samples of one level
    int threads = 1;
    std::uint64_t seed = 0;
    std::optional<std::uint64_t> memory_limit;                        ///< of host memory
    std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< no level is run after it
};

/// What is to be measured.
struct TuneCount {
    std::size_t classes = 0;  ///< of all element kinds
    std::size_t rows = 0;     ///< levels, at most, on their problems
};
/// Throws what run_tune does before it measures.
TuneCount count_of(const TuneOptions& options, const Registry& registry);

/// Called while the measurements go on; each may be empty.
struct TuneListener {
    /// The fastest level of a class, as it is put into the cache.
    std::function<void(const TunedLevel&)> tuned;
    std::function<void(const BenchProgress&)> progress;
    /// A class that is left as it was, because its problem does not fit in memory.
    std::function<void(SizeClass, const Extents&, const std::string& reason)> skipped;
    /// Classes that are left as they were, because the time is over.
    std::function<void(std::size_t count)> late;
    /// Classes of which no more is measured, whatever became of them.
    std::function<void(std::size_t count)> ended;
    /// A level that failed verification, which is never taken.
    std::function<void(const BenchRow&)> failed;
    Tell say;
};

using BenchFunction = std::function<int(const BenchOptions&, const Registry&, const BenchListener&)>;

/// The device's cache file as it is, or an empty one where it cannot be used. `why_not`: see load_tuning.
struct TuningFile {
    std::string path;
    Tuning tuning;
    std::string why_not;
};
/// Throws Error{usage} where the cache is disabled or has no folder, {unsupported} for a device that does
/// not exist.
TuningFile open_tuning(const TuneOptions& options, const Registry& registry);

/// The same of what the device takes beside computing.
struct OverheadFile {
    std::string path;
    std::optional<DeviceOverhead> overhead;
    std::string why_not;
};
OverheadFile open_overhead(const TuneOptions& options, const Registry& registry);

/// Measures what the device takes beside computing, and puts it into its file. Comes before all else that
/// uses the device, whose start is measured. Throws what open_tuning does, and Error{output, device, memory}.
void tune_overhead(const TuneOptions& options, const Registry& registry);

/// Measures the levels on every class with the bench's machinery and puts the fastest of each into the
/// cache file, which is replaced after each element kind; entries of other kinds and classes stay. Levels
/// run with their default parameters first; the fastest then with every choice of its tunable parameters.
/// `vendor` is never taken, as it never is by the shipped tables. A class whose levels were not all measured
/// when the time is over stays as it was.
///
/// `bench` measures: run_bench, or what stands in for it.
///
/// Returns 0; 1 where a result failed verification. Throws what open_tuning does, and Error{usage} for two
/// sizes of one class or a size of none, {output}, and {device} where a level breaks the device.
int run_tune(const TuneOptions& options, const Registry& registry, const TuneListener& listener,
             const BenchFunction& bench = run_bench);

}  // namespace gpumat
