#pragma once

#include "kernels/level.hpp"

namespace gpumat::reduce::gpu {

/// The reduction ladder of the GPU, first rung first, the vendor's library and the baseline.
std::span<const Level> levels();

/// The parameters of `shuffle`: `waves`, how many blocks there are for each that runs at a time.
std::span<const Parameter> shuffle_parameters();

// One function a level, each in the file of its level.
Launch prepare_interleaved(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_sequential(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_shuffle(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);

/// Baseline: reads every byte; its result is that of Level::reads.
Launch prepare_read(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::reduce::gpu
