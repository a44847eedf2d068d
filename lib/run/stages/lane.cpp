#include "lib/run/stages/lane.hpp"

#include <algorithm>
#include <utility>

namespace gpumat::stages {

void LevelRuns::run(const Problem& problem, const Operands& operands) {
    const Launch launch = std::move(executor_.prepare(*context_.plan.level, problem, {&operands, 1}).front());
    const Timing timing = executor_.time(launch, problem, context_.options.warmup, context_.options.repeat);
    result_.level = launch.level;
    if (result_.details.empty()) result_.details = launch.details;
    result_.workspace_bytes = std::max(result_.workspace_bytes, launch.workspace_bytes);
    result_.samples_ms.resize(timing.samples_ms.size());
    for (std::size_t i = 0; i < timing.samples_ms.size(); ++i) result_.samples_ms[i] += timing.samples_ms[i];
}

}  // namespace gpumat::stages
