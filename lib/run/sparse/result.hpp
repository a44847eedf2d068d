#pragma once

#include "lib/run/sparse/inputs.hpp"

namespace gpumat::sparse {

/// The result in memory: a dense matrix, or compressed rows, which the level counts first where the operation
/// cannot say how many entries they have. It starts out as bytes of 0xff, which can pass for no index and for
/// no number, so that what a level leaves unwritten is found.
class Result final : public EntryRoom {
  public:
    /// The problem has the entries of its inputs.
    Result(const Plan& plan, const Problem& problem, const RunOptions& options);

    /// Puts it into the operands, as the level gets it.
    void add_to(Operands& operands);
    MutableOperand take(std::int64_t entries) override;

    /// Entries of one that is sparse, else 0.
    [[nodiscard]] std::int64_t entries() const;
    [[nodiscard]] const Matrix* dense() const { return std::get_if<Matrix>(&held_); }
    [[nodiscard]] const Csr* sparse() const { return std::get_if<Csr>(&held_); }

    void make_nans_plain();
    [[nodiscard]] std::string hash() const;

  private:
    [[nodiscard]] MutableOperand operand();

    const Plan& plan_;
    const RunOptions& options_;
    bool is_counted_;  ///< by the level
    Held held_;
};

}  // namespace gpumat::sparse
