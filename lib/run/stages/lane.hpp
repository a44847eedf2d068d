#pragma once

#include <memory>

#include "lib/run/stages/context.hpp"

namespace gpumat::stages {

/// What computes the parts of a flow: a CPU, or a GPU.
class Lane {
  public:
    virtual ~Lane() = default;
    Lane() = default;
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    /// Starts the stages beside computing.
    virtual void start(Stages& /*stages*/) {}

    /// Computes all parts that reading gives, and hands their results to checking.
    virtual void compute() = 0;
};

/// The result hears the level's name, details and times.
std::unique_ptr<Lane> cpu_lane(const FlowContext& context, Buffers& buffers, Queues& queues,
                               FlowResult& result);
/// `watch`, where there is one, hears when all is computed.
std::unique_ptr<Lane> gpu_lane(const FlowContext& context, Buffers& buffers, Queues& queues,
                               FlowResult& result, ConditionsWatch* watch);

/// Prepares the level on a part and times it; the times of all parts are added up.
class LevelRuns {
  public:
    LevelRuns(const FlowContext& context, FlowResult& result)
        : context_(context), executor_(context.plan.lane().device, context.how), result_(result) {}

    void run(const Problem& problem, const Operands& operands);

  private:
    const FlowContext& context_;
    Executor executor_;
    FlowResult& result_;
};

}  // namespace gpumat::stages
