#pragma once

#include "kernels/level.hpp"

namespace gpumat::transpose::cpu {

/// The transpose ladder of the CPU, first rung first.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::transpose::cpu
