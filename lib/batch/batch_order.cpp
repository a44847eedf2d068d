#include "lib/batch/batch_order.hpp"

#include <algorithm>
#include <map>

#include "lib/output/paths.hpp"

namespace gpumat {
namespace {

/// What the earlier jobs do with a file.
struct FileUse {
    std::vector<std::size_t> readers;
    std::vector<std::pair<std::size_t, std::string>> writers;  ///< with the dataset
    std::optional<std::size_t> logger;
};

bool refuse(JobOrder& order, std::size_t conflict, const std::string& why) {
    order.refused = why;
    order.conflict = conflict;
    return false;
}

/// A file that a job reads or writes is no log of another. Returns false where the job is refused.
bool keep_logs_apart(std::map<std::string, FileUse>& uses, const JobFiles& files, JobOrder& order) {
    const auto meets_log = [&](const formats::Reference& matrix) {
        const std::optional<std::size_t> logger = uses[one_name(matrix.path)].logger;
        if (logger) refuse(order, *logger, to_string(matrix) + " is another job's log");
        return logger.has_value();
    };
    if (std::ranges::any_of(files.inputs, meets_log) || (files.output && meets_log(*files.output)))
        return false;
    if (files.log.empty()) return true;
    const FileUse& use = uses[one_name(files.log)];
    if (!use.writers.empty())
        return refuse(order, use.writers.front().first,
                      "its log " + files.log + " is a file that another job writes");
    if (!use.readers.empty())
        return refuse(order, use.readers.front(),
                      "its log " + files.log + " is a file that another job reads");
    return true;
}

/// Sets the order of a job that writes; returns false where it is refused.
bool order_output(const FileUse& use, const formats::Reference& output, JobOrder& order) {
    const std::string own = formats::plain_dataset(output.dataset);
    for (const auto& [writer, dataset] : use.writers) {
        if (dataset.empty() || own.empty() || dataset == own)
            return refuse(order, writer, "it writes " + to_string(output) + ", which another job writes too");
        order.after.push_back(writer);
    }
    for (const std::size_t reader : use.readers) {
        if (output.dataset.empty())
            return refuse(order, reader, "it writes " + to_string(output) + ", which an earlier job reads");
        order.after.push_back(reader);  // a dataset is added to a file that is read
    }
    return true;
}

}  // namespace

std::vector<JobOrder> order_jobs(const std::vector<JobFiles>& jobs) {
    std::vector<JobOrder> orders(jobs.size());
    std::map<std::string, FileUse> uses;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
        JobOrder& order = orders[job];
        const auto& output = jobs[job].output;
        if (!keep_logs_apart(uses, jobs[job], order)) continue;
        if (output && !order_output(uses[one_name(output->path)], *output, order)) continue;
        for (const formats::Reference& input : jobs[job].inputs) {
            FileUse& use = uses[one_name(input.path)];
            for (const auto& [writer, dataset] : use.writers) {
                order.after.push_back(writer);
                order.needs.push_back(writer);
            }
            use.readers.push_back(job);
        }
        if (output)
            uses[one_name(output->path)].writers.emplace_back(job, formats::plain_dataset(output->dataset));
        if (!jobs[job].log.empty()) uses[one_name(jobs[job].log)].logger = job;
    }
    return orders;
}

}  // namespace gpumat
