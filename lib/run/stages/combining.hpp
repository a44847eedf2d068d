#pragma once

#include <optional>

#include "lib/run/stages/context.hpp"

namespace gpumat::stages {

/// Makes one result of what parts gave that share a block of it.
class Combining {
  public:
    explicit Combining(const Plan& plan) : plan_(plan) {}

    /// Takes what a part gave into what those before it gave. Whether it was the last of them.
    bool take(const ProblemPart& part, const void* results, std::size_t bytes);

    /// After the last one: the result of all.
    [[nodiscard]] Buffer finish(const ProblemPart& last) const;

  private:
    const Plan& plan_;
    std::optional<Buffer> unfinished_;  ///< of the parts so far
};

}  // namespace gpumat::stages
