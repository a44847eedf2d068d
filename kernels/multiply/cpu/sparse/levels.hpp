#pragma once

#include "kernels/level.hpp"

namespace gpumat::multiply::cpu::sparse {

/// The ladders of the CPU for sparse matrices, first rung first: those of a sparse and a dense one, whose
/// product is dense, and of two sparse ones, whose product is sparse.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_rows(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_merge(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_expand(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_hash(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_binned(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::multiply::cpu::sparse
