#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/numbers/matrix.hpp"
#include "formats/format.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/operation.hpp"

namespace gpumat {

class RunLog;
struct Progress;
namespace engines {
class Team;
}
struct RunRecord;

/// What the user asks of one run of an operation: the command line as values. What is text in it is parsed
/// where it is used: a setting needs the type of the matrices.
struct RunOptions {
    const Operation* operation = nullptr;
    std::vector<std::optional<formats::Reference>>
        inputs;  ///< by role; absent where an optional one is not given
    std::map<std::string, std::string, std::less<>> settings;  ///< the operation's own, by name
    std::optional<formats::Reference> output;
    std::string output_format;  ///< "" chooses by extension

    std::string level = "auto";   ///< name or number
    std::string device = "auto";  ///< auto, cpu, gpu, gpu:N
    Parameters parameters;

    VerifyMode verify = VerifyMode::automatic;
    std::optional<double> tolerance;
    int repeat = 1;
    int warmup = 0;
    bool force = false;
    double wait_s = 0;  ///< for an output that another process has locked
    bool keep_failed = false;
    bool dense = false;   ///< sparse inputs are read dense, and the result is dense
    bool sparse = false;  ///< dense inputs are read sparse, and the result is sparse
    bool dry_run = false;
    std::optional<std::uint64_t> memory_limit;         ///< of the host, and of the device
    std::optional<std::uint64_t> device_memory_limit;  ///< of the device, where that differs
    int threads = 1;
    std::uint64_t seed = 0;
    formats::ReadOptions read;                      ///< with the type, threads and memory limit of the run
    formats::WriteOptions write;                    ///< with the threads of the run
    std::string command_line;                       ///< as a shell takes it back, for the record
    Progress* progress = nullptr;                   ///< where to tell how far the run has come; may be null
    std::function<void(const RunRecord&)> publish;  ///< hears the record when more is known; may be empty
    /// Hears the record with its output before that gets its name; may be empty.
    std::function<void(const RunRecord&)> before_naming;
    /// Hears a verified result of few elements of an operation that answers; may be empty.
    std::function<void(const Matrix&)> hear_result;
    engines::Team* team = nullptr;  ///< the ranks that compute; null: this process does
    RunLog* log = nullptr;  ///< where the record will be appended; must be none of the matrices' files
};

}  // namespace gpumat
