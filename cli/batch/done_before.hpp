#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cli/batch/job_line.hpp"
#include "lib/batch/batch_log.hpp"
#include "lib/batch/batch_order.hpp"

namespace gpumat::cli {

/// The jobs, each with its record in the log, that need not run again: what they read and wrote is as the log
/// tells, and none of it comes from a job that runs again. `logged` must live longer.
std::map<std::size_t, const nlohmann::json*> jobs_done_before(const std::vector<Job>& jobs,
                                                              const std::vector<JobOrder>& orders,
                                                              const LoggedOutputs& logged);

}  // namespace gpumat::cli
