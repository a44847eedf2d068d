#pragma once

#include "kernels/level.hpp"

namespace gpumat::transpose::cpu {

/// What the transpose ladder is measured against: a copy of the same matrix (`copies` is set: the result is
/// the input, m×n). It needs c apart from a.
std::span<const Level> baselines();

Launch prepare_memcpy(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::transpose::cpu
