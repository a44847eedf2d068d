#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch/job_line.hpp"
#include "core/descriptor.hpp"

namespace gpumat::cli {

/// A job that a worker is given.
struct Assignment {
    std::uint32_t job = 0;
    std::uint64_t memory = 0;   ///< its share; 0: all
    std::uint64_t threads = 0;  ///< for a job that names none; 0: as many as ever
};

/// How a job ended, or that its output is about to get its name.
struct Outcome {
    std::uint32_t job = 0;
    int exit_code = 0;
    std::string record;    ///< one line of JSON
    std::string messages;  ///< warnings and errors, one a line
    bool ended = true;     ///< else the process waits for `allow_naming`
};

/// A process that runs jobs one after the other, so that devices, buffers and libraries are set up once for
/// many; a job that crashes or takes too long ends this process, not the batch.
class Worker {
  public:
    /// Forks. The jobs must live longer.
    Worker(const std::vector<Job>& jobs, const Registry& registry);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker();  ///< ends the process

    void give(const std::vector<Assignment>& assignments);

    /// Takes what the worker says, after `descriptor()` has become readable. False where the process is gone.
    bool listen(std::vector<Outcome>& heard);

    /// Lets the job that runs give its output the name.
    void allow_naming();

    [[nodiscard]] int descriptor() const { return from_.number(); }
    [[nodiscard]] bool idle() const { return given_.empty(); }
    /// The jobs that were given and have not ended, in their order; the first one runs.
    [[nodiscard]] const std::deque<Assignment>& given() const { return given_; }
    /// When the one that runs began.
    [[nodiscard]] std::chrono::steady_clock::time_point began() const { return began_; }

    /// Ends the process as a signal would that removes temporary files, and waits for it. Takes what it still
    /// said: the jobs that ended by themselves. The signal that ended it, or 0.
    int stop(std::vector<Outcome>& ended);

  private:
    pid_t number_ = -1;
    Descriptor to_;
    Descriptor from_;
    std::string heard_;
    std::deque<Assignment> given_;
    std::chrono::steady_clock::time_point began_;
};

/// The record of a job of which no command made one.
std::string record_of_failure(const Job& job, int exit_code, const std::string& error);

/// The record with the line and text of the job as `job`.
std::string with_job(const std::string& record, const Job& job);

}  // namespace gpumat::cli
