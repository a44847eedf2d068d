#pragma once

#include "kernels/level.hpp"

namespace gpumat::transpose::cpu::sparse {

/// The ladder of the CPU for sparse matrices, first rung first.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

// What levels take beside the matrices.
std::uint64_t counting_bytes(const Problem& problem, int threads);
std::uint64_t blocked_bytes(const Problem& problem, int threads);

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_counting(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_blocked(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::transpose::cpu::sparse
