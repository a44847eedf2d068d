#pragma once

#include <deque>

#include "lib/run/stages/context.hpp"

namespace gpumat::stages {

/// Hashes what was read and what was verified, beside the other stages.
class Hashing {
  public:
    Hashing(const FlowContext& context, Queues& queues) : context_(context), queues_(queues) {}

    /// What other stages call; in turn, it is hashed at once.
    void later(ToHashing next);

    void run();

  private:
    void take(const std::deque<ToHashing>& all);

    const FlowContext& context_;
    Queues& queues_;
};

}  // namespace gpumat::stages
