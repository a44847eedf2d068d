#pragma once

#include <mutex>
#include <span>
#include <string>

#include "core/descriptor.hpp"
#include "lib/record/record.hpp"

namespace gpumat {

/// The log to which the records of runs are appended: CSV where its name ends in ".csv" (a header
/// first where the file is empty), else lines of JSON; "-" is standard output, as JSON.
class RunLog {
  public:
    /// Opens the log, before anything runs. An empty path is none. Throws Error{output} where it leads to one
    /// of `matrices`, which need not exist, where it cannot be opened, or where it holds something else than
    /// records, or records with other columns. Nothing is appended then.
    explicit RunLog(const std::string& path, std::span<const std::string> matrices = {});

    /// Throws Error{output} where the log is one of these files, and appends nothing any more: a line would
    /// destroy a matrix. Devices and pipes may be named twice.
    void require_apart(std::span<const std::string> files);

    /// In one write and under a lock, so that runs side by side never mix their lines. Throws Error{output};
    /// the log is then as it was.
    void append(const RunRecord& record);

    /// The same of a line of JSON without its end, to a log that is no CSV.
    void append_line(std::string line);

  private:
    void write(const std::string& line);

    std::mutex mutex_;  ///< who tells of a signal may append while the run goes on
    std::string path_;
    Descriptor file_;
    bool regular_ = false;
    std::string header_;  ///< the first line of CSV
};

}  // namespace gpumat
