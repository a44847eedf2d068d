#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/run/stages/combining.hpp"
#include "lib/run/stages/reading.hpp"

namespace gpumat::stages {

/// Verifies the results of the parts, and hands on what was verified to hashing and writing.
class Checking {
  public:
    Checking(const FlowContext& context, Queues& queues, Hashing& hashing, const Reading& reading,
             FlowResult& result)
        : context_(context),
          queues_(queues),
          hashing_(hashing),
          reading_(reading),
          result_(result),
          combining_(context.plan) {}

    void run();

  private:
    void take(const InputsComplete& news);
    void take(const ResultWhole& whole);
    void take(const ResultPanel& panel);
    void begin(PartInWork& part);
    void begin_block(const ProblemPart& part, const Operands& inputs);
    void finish(PartInWork& part);
    void finish_all();
    void keep_answer(const Block& block, const MatrixView& elements);
    /// Nothing more is written of a wrong result, unless it is asked for.
    [[nodiscard]] bool writes() const;
    bool combine(PartInWork& part);

    const FlowContext& context_;
    Queues& queues_;
    Hashing& hashing_;
    const Reading& reading_;
    FlowResult& result_;
    Combining combining_;
    std::optional<ContentHash> output_hash_;
    std::shared_ptr<ResultCheck> check_;        ///< of the part, or parts, at hand
    std::vector<std::optional<Block>> inputs_;  ///< of these
};

}  // namespace gpumat::stages
