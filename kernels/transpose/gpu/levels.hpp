#pragma once

#include "kernels/level.hpp"

namespace gpumat::transpose::gpu {

/// The transpose ladder of the GPU, first rung first.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

// One function a level, each in the file of its level.

}  // namespace gpumat::transpose::gpu
