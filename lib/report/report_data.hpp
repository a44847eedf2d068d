#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/registry.hpp"
#include "lib/charts/chart.hpp"

namespace gpumat {

struct LogRecords;  // lib/report/report_log.hpp

/// What did not end as it should.
struct Failure {
    std::string source;
    std::string command_line;
    std::string what;
    std::optional<int> exit_code;  ///< of a run
    std::string folder{};          ///< where it ran; empty where that is not recorded
};

/// A median and its 95 % interval, of a kernel or of whole runs.
struct Measured {
    std::string what;  ///< "kernel" or "whole run"
    std::string op;
    std::string level;  ///< alone: what has a colour
    std::string label;  ///< with parameters and settings: "tiled tile=32 op=norm"
    std::string type;
    Extents size;
    std::string cache;  ///< "cold", "hot"; empty: of runs
    std::string device;
    int threads = 0;  ///< 0: of a GPU
    bool baseline = false;
    bool by_arithmetic = false;  ///< its rate is GFLOP/s, not GB/s
    double bytes = 0;
    double flops = 0;
    std::vector<double> samples_ms;
    std::optional<double> median_ms;
    std::optional<Range> interval_ms;
    std::optional<double> share, gain_over_previous, gain_over_first;
    bool previous_settled = true;  ///< what the gains are over is known well
    bool first_settled = true;
    std::string verified;
    std::string remark;  ///< why it could not run, or what is worth knowing
    std::string source;
    std::vector<Measured>
        repeats{};        ///< of several records: those that have an interval alone, and the rest as one
    bool failed = false;  ///< a record of it failed, or has no time

    /// Whether the interval is within 1 % of the median.
    [[nodiscard]] bool settled() const;
    /// GB/s or GFLOP/s in this time; 0 where that has no sense.
    [[nodiscard]] double rate(double ms) const;
    [[nodiscard]] std::optional<double> rate() const;
    [[nodiscard]] std::optional<Range> rate_interval() const;
    [[nodiscard]] const char* unit() const { return by_arithmetic ? "GFLOP/s" : "GB/s"; }
};

struct RunStage {
    std::string name;
    Range span;
    double busy_ms = 0;
};

/// A record of a run.
struct LoggedRun {
    std::string source, time, op, level, type, size, verified, error, command_line;
    std::string kind{};  ///< of its device, "cpu"
    std::optional<double> kernel_ms, total_ms, recorded_rest_ms;
    std::optional<double> rate{};  ///< of the kernel
    const char* unit = "";         ///< of that: "GB/s"
    std::vector<RunStage> stages;
    int exit_code = 0;

    /// The times of the run in which no stage was.
    [[nodiscard]] std::vector<Range> rest() const;
    /// What the record calls the rest, else their sum; absent where the record has no stages.
    [[nodiscard]] std::optional<double> rest_ms() const;
};

/// How fast a device's memory or arithmetic is at most, as `probe roofline` measured it.
struct Ceiling {
    std::string device, name;
    double rate = 0;     ///< 10⁹ a second
    bool bytes = false;  ///< else operations
};

/// A level on the roofline.
struct RooflinePoint {
    std::string device, op, level;
    double work = 0;  ///< operations; elements moved, where nothing is computed
    double bytes = 0;
    double ms = 0;
};

/// The values of a property of the environment, and how many records have each.
using FactValues = std::map<std::string, int>;

/// What the records of some logs say.
struct LogData {
    std::vector<Failure> failures;
    std::vector<std::pair<std::string, FactValues>> facts;
    std::vector<Measured> measured;
    std::vector<LoggedRun> runs;
    std::vector<Ceiling> ceilings;
    std::vector<RooflinePoint> probed;
};

/// Records of the same measurement become one of all their samples, which keeps what each measured. Throws
/// Error{input} for a record whose members have other types than its schema says.
LogData data_of(const LogRecords& logs, const Registry& registry);

}  // namespace gpumat
