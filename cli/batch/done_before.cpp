#include "cli/batch/done_before.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "core/parallel.hpp"
#include "formats/registry.hpp"

namespace gpumat::cli {
namespace {

using DoneBefore = std::map<std::size_t, const nlohmann::json*>;

/// A job that the log knows.
struct LoggedJob {
    std::size_t job = 0;
    const nlohmann::json* record = nullptr;
    std::vector<LoggedMatrix> matrices;  ///< that must be unchanged
};

std::vector<LoggedJob> logged_jobs(const std::vector<Job>& jobs, const std::vector<JobOrder>& orders,
                                   const LoggedOutputs& logged) {
    std::vector<LoggedJob> known;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
        const auto found = logged.find(jobs[job].text);
        if (found == logged.end() || !orders[job].refused.empty()) continue;
        formats::ReadOptions read = jobs[job].read;
        read.threads = hardware_threads();
        auto matrices = matrices_of_done(found->second, jobs[job].files, read);
        if (!matrices.empty()) known.push_back({job, &found->second, std::move(matrices)});
    }
    return known;
}

/// Those whose matrices are as the log tells.
void add_unchanged(std::span<const LoggedJob> jobs, DoneBefore& done) {
    std::vector<formats::AheadCheck> checks;
    for (const LoggedJob& logged : jobs)
        for (const LoggedMatrix& matrix : logged.matrices) checks.push_back(matrix.stored);
    formats::check_ahead(checks);
    for (const LoggedJob& logged : jobs)
        if (std::ranges::all_of(logged.matrices, is_unchanged)) done.emplace(logged.job, logged.record);
}

}  // namespace

DoneBefore jobs_done_before(const std::vector<Job>& jobs, const std::vector<JobOrder>& orders,
                            const LoggedOutputs& logged) {
    constexpr std::size_t kChecked = 64;  // jobs whose matrices one child tries
    const std::vector<LoggedJob> known = logged_jobs(jobs, orders, logged);
    DoneBefore done;
    for (std::size_t first = 0; first < known.size(); first += kChecked)
        add_unchanged(std::span(known).subspan(first, std::min(kChecked, known.size() - first)), done);
    for (std::size_t job = 0; job < jobs.size(); ++job) {  // earlier ones first
        const auto is_new = [&](std::size_t earlier) { return !done.contains(earlier); };
        if (std::ranges::any_of(orders[job].needs, is_new)) done.erase(job);
    }
    return done;
}

}  // namespace gpumat::cli
