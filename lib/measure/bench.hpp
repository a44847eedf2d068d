#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/messages.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/registry.hpp"
#include "lib/measure/bench_sizes.hpp"
#include "lib/measure/bench_sparse.hpp"
#include "lib/record/record.hpp"

namespace gpumat {

/// Settings of an operation, by name.
using Settings = std::map<std::string, std::string, std::less<>>;

/// What a bench is to measure.
struct BenchOptions {
    const Operation* operation = nullptr;
    std::vector<Extents> sizes;
    std::vector<Type> types;
    std::vector<std::string> levels = {"all"};   ///< names, numbers, "all" (the ladder), "auto"
    std::vector<std::string> against = {"all"};  ///< baselines or levels; "all", "none"
    std::string device = "auto";                 ///< auto, cpu, gpu, gpu:N
    /// Values to try for the parameters of the levels that have them; one row for each combination.
    std::map<std::string, std::vector<std::string>> parameters;
    /// The operation's own, by name, for its levels; a vendor's library has those that say what the result
    /// is, other baselines none.
    Settings settings;
    SparseInputs sparse;
    bool hot = false;         ///< one set of operands, which stays in the cache if it fits
    double time_limit_s = 2;  ///< for the samples of one row
    std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< no row begins after it
    VerifyMode verify = VerifyMode::automatic;
    int threads = 1;
    std::uint64_t seed = 0;
    std::optional<std::uint64_t> memory_limit;  ///< of host memory
    std::vector<std::string> command_line;
};

/// What all rows of a bench share; known before the first of them.
struct BenchHead {
    const Operation* operation = nullptr;
    std::string time;  ///< UTC at the start
    std::string version;
    std::string host;
    std::vector<std::string> command_line;
    RecordedDevice device;
    std::string device_reason;   ///< why this device, where `auto` took it
    std::string driver_release;  ///< "580.95.05"; empty where unknown
    std::uint64_t cache_bytes = 0;
    Parameters settings;  ///< of the operation, as its levels are measured: "op" → "norm"; of sparse inputs
    std::string sparse;   ///< "sparse A (1000000 entries)"; empty where all are dense
    bool in_place = false;  ///< the levels; never the baselines
    bool hot = false;
    double time_limit_s = 0;
    std::vector<std::string> labels;  ///< of the rows of each problem, in order
    std::size_t row_count = 0;        ///< labels × types × sizes
};

/// One level or baseline on one problem. Whatever shows or stores results reads them from here.
struct BenchRow {
    const Operation* operation = nullptr;
    std::string level;  ///< as asked for; "auto" for the choice of auto
    std::string ran;    ///< the level that did the work; empty where none did
    bool baseline = false;
    bool yardstick = false;  ///< shares of speed are given of it
    Role role = Role::rung;
    bool in_place = false;
    Type type = Type::f32;
    Extents size;
    Parameters parameters;
    Parameters settings;                  ///< of the operation, as this row has them, and of sparse inputs
    std::optional<std::int64_t> entries;  ///< of all inputs, where any is sparse
    std::optional<std::int64_t> result_entries;                ///< of a sparse result
    std::vector<std::pair<std::string, std::string>> details;  ///< of the launch

    std::vector<double> samples_ms;  ///< empty where it could not run, failed or was throttled throughout
    std::int64_t discarded = 0;      ///< samples taken while clocks were throttled
    std::optional<double> median_ms;
    std::optional<double> low_ms;  ///< 95 % confidence interval of the median
    std::optional<double> high_ms;
    std::optional<double> effective_bandwidth_gbps;  ///< Problem::bytes / median
    std::optional<double> gflops;                    ///< of an operation with arithmetic
    std::optional<double> entries_per_s;             ///< of the inputs' entries, where any is sparse
    std::optional<double> share;                     ///< of the fastest yardstick on the same problem
    std::optional<double> share_of_vendor;           ///< of the vendor's library on the same problem
    std::optional<double> gain_over_previous;        ///< over the level before it in this bench
    std::optional<double> gain_over_first;
    std::optional<bool> settled;                     ///< the interval ends within 1 % of the median
    std::optional<bool> gain_over_previous_settled;  ///< this row, and what the gain is over
    std::optional<bool> gain_over_first_settled;
    std::optional<int> clock_mhz;  ///< GPU, at the end of sampling
    std::optional<double> power_w;

    Verification verification;
    std::string reason;  ///< why it could not run
    std::string note;    ///< worth knowing beside the numbers; may be empty

    [[nodiscard]] bool ran_at_all() const { return reason.empty(); }
    [[nodiscard]] bool failed() const { return verification.failed(); }
    /// In the unit of the operation's rate; of sparse matrices in GB/s.
    [[nodiscard]] std::optional<double> speed() const {
        return entries || operation->rate == Rate::bandwidth ? effective_bandwidth_gbps : gflops;
    }
};

/// "tiled", "tiled tile=32".
std::string label_of(const std::string& level, const Parameters& parameters);

/// "tiled tile=32", "auto", "tiled tile=32 in place".
std::string label_of(const BenchRow& row);

struct BenchProgress {
    std::size_t row = 0;  ///< from 1
    std::size_t row_count = 0;
    std::string what;  ///< "tiled f32 4096x4096"
};

/// Called while a bench goes on; each may be empty.
struct BenchListener {
    std::function<void(const BenchHead&)> head;
    std::function<void(const BenchRow&)> row;
    std::function<void(const BenchProgress&)> progress;
    Tell say;
};

/// Measures every level and baseline on every problem, one row after the other: prepares it, verifies its
/// first result, warms up, and times it until the median is known well or the time limit is reached.
/// The operation's copies that are yardsticks are always measured too (unless `against` is none), because
/// shares are given of the fastest of them.
///
/// In place, each level starts from the input, and its first result is verified as any other; each run after
/// it transposes the matrix once more. Baselines have a place of their own for their result.
///
/// Returns 0; 1 where a result failed verification; 5 where no level could run. Throws Error{usage} for
/// names that do not exist and settings that the operation does not have, {unsupported} for a device that
/// does not, {memory} where the largest problem does not fit, {device} where a level breaks the device (its
/// row is told first).
int run_bench(const BenchOptions& options, const Registry& registry, const BenchListener& listener);

}  // namespace gpumat
