#pragma once

#include <functional>

#include "lib/run/sparse/inputs.hpp"

namespace gpumat::sparse {

/// The result in memory: a dense matrix, or compressed rows, which the level counts first where the operation
/// cannot say how many entries they have. It starts out as bytes of 0xff, which can pass for no index and for
/// no number, so that what a level leaves unwritten is found.
class Result final : public EntryRoom {
  public:
    /// Asked before memory for so many entries is taken; throws where that is too much.
    using RequireRoom = std::function<void(std::int64_t entries)>;

    /// The problem has the entries of its inputs.
    Result(const Problem& problem, int threads, RequireRoom require_room);

    /// Puts it into the operands, as the level gets it.
    void add_to(Operands& operands);
    MutableOperand take(std::int64_t entries) override;

    /// Entries of one that is sparse, else 0.
    [[nodiscard]] std::int64_t entries() const;
    [[nodiscard]] const Matrix* dense() const { return std::get_if<Matrix>(&held_); }
    [[nodiscard]] Matrix* dense() { return std::get_if<Matrix>(&held_); }
    [[nodiscard]] const Csr* sparse() const { return std::get_if<Csr>(&held_); }

    void make_nans_plain();
    [[nodiscard]] std::string hash() const;

  private:
    [[nodiscard]] MutableOperand operand();

    int threads_;
    RequireRoom require_room_;
    bool is_counted_;  ///< by the level
    Held held_;
};

}  // namespace gpumat::sparse
