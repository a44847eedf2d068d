#pragma once

#include "kernels/level.hpp"

namespace gpumat::reduce::cpu::sparse {

/// The ladder of the CPU for sparse matrices, first rung first.
std::span<const Level> levels();

/// What `auto` tries, best first.
std::vector<Preference> preference();

// What levels take beside the matrices.
std::uint64_t serial_bytes(const Problem& problem, int threads);
std::uint64_t rows_bytes(const Problem& problem, int threads);

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_rows(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::reduce::cpu::sparse
