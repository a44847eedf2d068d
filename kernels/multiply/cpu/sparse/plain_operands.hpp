#pragma once

#include <vector>

#include "core/memory.hpp"
#include "core/sparse/csr.hpp"
#include "kernels/level.hpp"

namespace gpumat::multiply::cpu::sparse {

/// The operands of a product as its loops go through them: by the rows of op(A) and op(B). What is stored
/// transposed is transposed first; but of a dense A, whose columns the loops read as well.
class PlainOperands {
  public:
    /// Takes the memory. Throws Error{memory}.
    PlainOperands(const Problem& problem, const Operands& operands, const Device& device);

    /// The problem without those transposes.
    [[nodiscard]] const Problem& problem() const { return problem_; }
    /// Transposes, and gives what is to be multiplied; of α = 0, whatever there is.
    const Operands& make();

    /// Bytes that one takes.
    static std::uint64_t bytes(const Problem& problem, int threads);

  private:
    Problem problem_;
    Operands operands_;
    Csr csr_a_;
    Csr csr_b_;
    Buffer dense_b_;
    std::vector<Launch> launches_;
};

}  // namespace gpumat::multiply::cpu::sparse
