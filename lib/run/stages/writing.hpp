#pragma once

#include <memory>

#include "lib/run/stages/context.hpp"

namespace gpumat::stages {

/// Writes what was verified, and completes the output.
class Writing {
  public:
    Writing(const FlowContext& context, Queues& queues, FlowResult& result)
        : context_(context), queues_(queues), result_(result) {}

    /// Once; `run` does it where it was not done before.
    void open();
    void run();

  private:
    const FlowContext& context_;
    Queues& queues_;
    FlowResult& result_;
    std::unique_ptr<formats::Writer> writer_;
};

}  // namespace gpumat::stages
