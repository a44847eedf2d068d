#pragma once

#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "lib/run/sparse/inputs.hpp"
#include "lib/run/sparse/ways.hpp"

namespace gpumat::sparse {

/// The inputs of a run in parts: those that are held, and the blocks of the others that a part reads.
class Streams {
  public:
    /// Reads what is held, and makes ranges of what is not, each within `room`.
    Streams(const Plan& plan, const RunOptions& options, const Ways& ways, SparseCounts& counts);

    /// Parts have whole multiples of so many lines.
    [[nodiscard]] std::int64_t step() const { return step_; }
    /// The part with these rows, and the entries that its inputs have at most.
    [[nodiscard]] ProblemPart part(const LineRange& rows) const;

    /// Reads the inputs of a part; its problem has the entries that there are then. They live until the next.
    Operands read(const LineRange& rows, ProblemPart& part);
    /// Counts what the last part read, of which no other one may read anything again.
    void count();
    /// Frees what the last part read.
    void release();

    /// In the order of the plan's inputs, after all parts.
    [[nodiscard]] std::vector<std::string> hashes() const;

  private:
    struct Stream {
        const PlannedInput* input;
        Way way;
        std::optional<SparseRanges> ranges;
        SparseContentHash sparse_hash;
        ContentHash dense_hash;
        std::string hash;  ///< of one that is held
    };

    void read(Stream& stream, const LineRange& rows, ProblemPart& part);

    const Plan& plan_;
    const RunOptions& options_;
    SparseCounts& counts_;
    std::vector<Stream> streams_;
    Inputs inputs_;
    std::int64_t step_ = 1;
    std::function<void()> count_;  ///< of the last part
};

}  // namespace gpumat::sparse
