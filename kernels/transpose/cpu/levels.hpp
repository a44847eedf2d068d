#pragma once

#include "kernels/level.hpp"

namespace gpumat::transpose::cpu {

/// The transpose ladder of the CPU, first rung first.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

/// The parameters of `tiled`.
std::span<const Parameter> tiled_parameters();

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_per_row(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::transpose::cpu
