#pragma once

#include <cstddef>

#include "kernels/level.hpp"

namespace gpumat::transpose::gpu {

/// The transpose ladder of the GPU, first rung first.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

/// The parameters of `per-element`: `tile`, the side of its blocks of threads.
std::span<const Parameter> per_element_parameters();

/// The parameters of `tiled` and `padded`: `tile`, the side of the tile, and `block`, the rows of threads.
std::span<const Parameter> tile_parameters();

/// Why those parameters, or a tile that takes `shared_bytes` of shared memory, cannot be served.
Reasons tile_reasons(const Problem& problem, const Device& device, std::size_t shared_bytes);

/// The reason of a level that cannot transpose in place, where that is asked for.
Reasons not_in_place(const Problem& problem, const Operands&, const Device& device);

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_per_row(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_per_element(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_naive(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device);
Reasons tiled_unsupported(const Problem& problem, const Operands&, const Device& device);
Launch prepare_padded(const Problem& problem, const Operands& operands, const Device& device);
Reasons padded_unsupported(const Problem& problem, const Operands&, const Device& device);
Launch prepare_diagonal(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device);
Reasons vectorized_unsupported(const Problem& problem, const Operands&, const Device& device);
Launch prepare_tma(const Problem& problem, const Operands& operands, const Device& device);
Reasons tma_unsupported(const Problem& problem, const Operands&, const Device& device);

}  // namespace gpumat::transpose::gpu
