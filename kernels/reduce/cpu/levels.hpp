#pragma once

#include "kernels/level.hpp"

namespace gpumat::reduce::cpu {

/// The reduction ladder of the CPU, first rung first, and its baseline.
std::span<const Level> levels();

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device);

/// Baseline: reads every byte on all threads. The result's first 8 bytes are the exclusive or of the input's
/// words of 8 bytes, the rest of it is 0.
Launch prepare_read(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::reduce::cpu
