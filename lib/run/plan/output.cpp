#include "lib/run/plan/output.hpp"

#include <string>

#include "formats/slice.hpp"
#include "lib/run/plan.hpp"

namespace gpumat {
namespace {

/// The dataset that a result gets where none was named.
std::string default_dataset(const Plan& plan) {
    const Operation& operation = *plan.problem.operation;
    if (!operation.dataset.empty()) return std::string(operation.dataset);
    const std::string& source = plan.inputs.front().header().source.dataset;
    return source.empty() ? "/A" : formats::without_slice(source);
}

}  // namespace

void plan_output(const RunOptions& options, Plan& plan) {
    if (!options.output) return;
    plan.output.emplace(DestinationRequest{.output = *options.output,
                                           .format = options.output_format,
                                           .default_dataset = default_dataset(plan),
                                           .force = options.force,
                                           .wait_s = options.wait_s});
}

}  // namespace gpumat
