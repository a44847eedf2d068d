#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.hpp"

namespace gpumat {

/// The files that a job of a batch reads and writes, as its line names them.
struct JobFiles {
    std::vector<formats::Reference> inputs;
    std::optional<formats::Reference> output;
    std::string log;  ///< empty where it has none
};

/// When a job may run.
struct JobOrder {
    std::vector<std::size_t> after;  ///< earlier jobs that must have ended
    std::vector<std::size_t> needs;  ///< of these: whose output it reads
    std::string refused;             ///< why it may not run at all; empty where it may
    std::size_t conflict = 0;        ///< with which job, where it is refused
};

/// The order of jobs that come one after the other. A job that reads what an earlier one writes comes after
/// that one. Refused is a job that writes what an earlier one writes or reads: what would be there at the
/// end, or be read, would be an accident. So is one whose log is a matrix of an earlier job, or whose matrix
/// is an earlier job's log. Different datasets of one file are written one after the other.
std::vector<JobOrder> order_jobs(const std::vector<JobFiles>& jobs);

}  // namespace gpumat
