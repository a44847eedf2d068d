#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/run/stages/hashing.hpp"

namespace gpumat::stages {

/// Reads the inputs of the parts, one part after the other. A block that the part before had too is not read
/// again.
class Reading {
  public:
    Reading(const FlowContext& context, Buffers& buffers, Queues& queues, Hashing& hashing);

    void run();

    /// The content hashes of the inputs, in the order of the plan's; empty of one that was not read. Complete
    /// once all is hashed.
    [[nodiscard]] std::vector<std::string> hashes() const;

  private:
    [[nodiscard]] PartPointer read_part(std::int64_t index);
    [[nodiscard]] std::shared_ptr<HeldBlock> input(const PartPointer& part, std::size_t at,
                                                   const Block& block);
    void read_block(const PartPointer& part, std::size_t at, const std::shared_ptr<HeldBlock>& held);
    void hash(std::size_t at, const Block& block, const MatrixView& elements,
              const std::shared_ptr<HeldBlock>& held);

    const FlowContext& context_;
    Buffers& buffers_;
    Queues& queues_;
    Hashing& hashing_;
    std::vector<std::shared_ptr<HeldBlock>> last_;                       ///< by role: what the last part had
    std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> seen_;  ///< places of blocks that are hashed
    std::vector<ContentHash> hashes_;
};

}  // namespace gpumat::stages
