#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/format.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/problem.hpp"
#include "lib/record/origin.hpp"
#include "lib/record/timeline.hpp"

// The run record `gpumat.run/1`: what one run read, computed, measured and wrote. It is filled while the
// run goes on, so that a failed run leaves the part that is known. Optional values that are absent are null
// in JSON and empty in CSV, and so is every number that is NaN or infinite (JSON has no such numbers).

namespace gpumat {

struct RecordedDevice {
    std::string kind;  ///< "cpu" or "gpu"
    std::string name;
    int threads = 0;                 ///< CPU threads used; 0 on a GPU
    std::string compute_capability;  ///< "9.0"; empty on a CPU
    std::string driver;              ///< CUDA version of the driver
    std::string runtime;             ///< CUDA version of the runtime
    std::optional<int> clock_mhz;
    std::optional<int> memory_clock_mhz;
    std::optional<double> power_w;
};

/// What a GPU's own counters say at a moment (NVML).
struct RecordedConditions {
    std::optional<int> clock_mhz;  ///< of the multiprocessors
    std::optional<int> memory_clock_mhz;
    std::optional<double> power_w;
    std::optional<int> temperature_c;
    std::string throttling;  ///< why clocks are held down; empty where they are not
    bool at_power_limit = false;
};

/// An input, or the output. One that could not be opened has a path, and a dataset where one was named.
struct RecordedMatrix {
    std::string path;
    std::string dataset;
    std::string format;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::string type;
    std::uint64_t bytes = 0;                    ///< of the elements in memory
    std::string hash;                           ///< content_hash; empty where it was not computed
    std::optional<std::uint64_t> file_bytes{};  ///< of the file; absent for a pipe
    std::string packing{};                      ///< see formats::Header
    bool unpacked = false;
    /// Of a matrix that was sparse in memory: its entries. Absent: it was dense.
    std::optional<std::int64_t> entries{};
    std::string values{};  ///< "text" of an output whose values were carried as they stood in the input
};

/// Milliseconds that each stage worked, on the wall clock; a stage that did not run is absent. Stages may
/// work at the same time: together they can be more than the total. `rest` is the time in which none worked,
/// so that total - rest is the time in which at least one did.
struct StageTimes {
    std::optional<double> open;     ///< the inputs, with their headers, and the output
    std::optional<double> prepare;  ///< device, level and parts are chosen
    std::optional<double> read;
    std::optional<double> host_to_device;
    std::optional<double> kernel;  ///< all repetitions and warm-ups together
    std::optional<double> device_to_host;
    std::optional<double> verify;
    std::optional<double> hash;   ///< of the result; that of the inputs is part of reading
    std::optional<double> write;  ///< until the output has its name
    std::optional<double> rest;
    std::optional<double> total;
};

/// The time that a stage took on the ranks of a run.
struct RecordedSpread {
    std::string name;
    double least_ms = 0;
    double median_ms = 0;
    double most_ms = 0;
};

/// The ranks that computed.
struct RecordedEngine {
    std::string name;     ///< "scalapack"
    std::string library;  ///< the file, with its version where it tells
    int ranks = 0;
    std::pair<int, int> grid;        ///< of ranks: along the rows and along the columns of matrices
    std::int64_t block = 0;          ///< rows and columns of a block that one rank has
    std::vector<std::string> hosts;  ///< each once
    std::vector<RecordedSpread> stages;
    std::uint64_t bytes_sent = 0;    ///< between ranks, but for what the library sends
    std::uint64_t bytes_a_rank = 0;  ///< of memory, the most of any
};

struct RunRecord {
    Origin origin;
    std::string command_line;  ///< quoted so that a shell takes it back
    std::string op;
    std::string level_requested;
    std::string level;         ///< as the level itself reports it; empty where none ran
    std::string level_reason;  ///< why `auto` chose it; empty where it was asked for
    RecordedDevice device;
    std::vector<std::pair<std::string, std::string>> parameters;  ///< of the level, with Launch::details
    std::string type;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::optional<std::int64_t> k;  ///< absent for a transpose
    std::optional<Scalar> alpha;    ///< absent for a transpose
    std::optional<Scalar> beta;
    Parameters settings;  ///< of the operation, by name: "axis" → "rows", "in-place" → "yes"
    int repeat = 1;
    int warmup = 0;
    std::uint64_t seed = 0;  ///< of the randomized check
    std::vector<RecordedMatrix> inputs;
    std::optional<RecordedMatrix> output;
    /// A verified result of one element, where that is what the operation is for: see answer_of.
    std::shared_ptr<const nlohmann::ordered_json> answer;
    StageTimes stages_ms;
    std::vector<StageTime> stages;          ///< when they began, worked and waited, in the order of the flow
    std::optional<RecordedEngine> engine;   ///< absent: this process computed alone
    std::int64_t parts = 1;                 ///< that the problem was cut into
    std::vector<double> kernel_samples_ms;  ///< one a repetition, warm-ups left out
    double kernel_bytes = 0;                ///< Problem::bytes
    double kernel_flops = 0;                ///< Problem::flops
    /// Rate over the bound that applies ("copy bandwidth", "roofline"), where it is known.
    std::optional<double> fraction_of_bound;
    std::optional<RecordedConditions> before;  ///< the kernel ran; of a GPU with NVML
    std::optional<RecordedConditions> after;
    std::string bound;
    std::optional<double> bound_ms;  ///< the time that the bound allows
    bool dry_run = false;            ///< nothing was read but headers, and nothing ran
    std::optional<std::uint64_t> peak_host_bytes;
    std::optional<std::uint64_t> peak_device_bytes;
    Verification verification;
    std::string error;  ///< the message where the run failed
    int exit_code = 0;
};

/// What a header says of a matrix; without its hash. Throws Error{memory} where it passes any memory.
RecordedMatrix recorded_matrix(const formats::Header& header);

/// The same of one that is read sparse, with so many entries.
RecordedMatrix recorded_sparse(const formats::Header& header, std::int64_t entries);

/// The element of a 1x1 matrix, exactly: a number, [re, im], or "nan", "inf", "-inf" for what JSON has no
/// number for. None for any other shape.
std::shared_ptr<const nlohmann::ordered_json> answer_of(const Matrix& result);

/// An answer as text: the number, or "re,im".
std::string answer_text(const nlohmann::ordered_json& answer);

/// The objects of a matrix and of a verification in a record.
nlohmann::ordered_json to_json(const RecordedMatrix& matrix);
nlohmann::ordered_json to_json(const Verification& verification);
nlohmann::ordered_json to_json(const RecordedEngine& engine);

/// One that is named and not opened yet.
RecordedMatrix named_matrix(const formats::Reference& reference);

/// A record of now and here.
RunRecord start_record();

/// Notes when the stages have worked until now.
void record_stages(const Timeline& timeline, RunRecord& record);

/// Middle sample (mean of the two middle ones); absent where there is none.
std::optional<double> median(std::vector<double> samples);

/// The object with the fixed names of `gpumat.run/1`. Derived here: median, min and max of the samples, and
/// from the median the bandwidth (GB/s) and the rate (GFLOP/s; null for an operation without arithmetic).
/// α and β are integers for integer types, [re, im] for complex ones, else numbers.
nlohmann::ordered_json to_json(const RunRecord& record);

/// The object, indented by so many spaces; in one line with -1. Paths may hold any bytes, JSON only UTF-8:
/// what is not becomes U+FFFD, and what steers a terminal is escaped.
std::string json_text(const nlohmann::ordered_json& json, int indent);

/// The same in one line.
std::string json_line(const nlohmann::ordered_json& json);

/// The words of a command line as a POSIX shell takes them back, in UTF-8 whatever bytes they hold.
std::string shell_line(const std::vector<std::string>& words);

/// The first line and a row of a CSV file of records (RFC 4180, but lines end with LF). The columns are
/// fixed: nested names are joined by '.', inputs are numbered from 0 to 2, lists and `parameters` are JSON
/// text.
std::string csv_header();
std::string csv_row(const RunRecord& record);

}  // namespace gpumat
