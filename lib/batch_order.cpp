#include "lib/batch_order.hpp"

#include <map>

#include "lib/paths.hpp"

namespace gpumat {
namespace {

/// What the earlier jobs do with a file.
struct FileUse {
    std::vector<std::size_t> readers;
    std::vector<std::pair<std::size_t, std::string>> writers;  ///< with the dataset
};

/// Sets the order of a job that writes; returns false where it is refused.
bool order_output(const FileUse& use, const formats::Reference& output, JobOrder& order) {
    const std::string own = formats::plain_dataset(output.dataset);
    for (const auto& [writer, dataset] : use.writers) {
        if (dataset.empty() || own.empty() || dataset == own) {
            order.refused = "it writes " + to_string(output) + ", which another job writes too";
            order.conflict = writer;
            return false;
        }
        order.after.push_back(writer);
    }
    for (const std::size_t reader : use.readers) {
        if (output.dataset.empty()) {
            order.refused = "it writes " + to_string(output) + ", which an earlier job reads";
            order.conflict = reader;
            return false;
        }
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
    }
    return orders;
}

}  // namespace gpumat
