#pragma once

#include <optional>

#include "lib/run/stages/context.hpp"

namespace gpumat::stages {

/// Makes one result of what parts gave that share a block of it.
class Combining {
  public:
    explicit Combining(const FlowContext& context) : context_(context) {}

    /// Takes what a part gave into what those before it gave. Whether it was the last of them: then the part
    /// has their result.
    bool take(PartInWork& part);

  private:
    const FlowContext& context_;
    std::optional<Buffer> unfinished_;  ///< of the parts so far
};

}  // namespace gpumat::stages
