#pragma once

#include "kernels/level.hpp"

namespace gpumat::multiply::gpu::sparse {

/// The ladder of the GPU for a sparse A and a dense B, first rung first, then the vendor's library.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

/// The reasons of every level: A is not transposed, and is read.
Reasons plain_unsupported(const Problem& problem, const Operands&, const Device&);
Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device& device);

// One function a level, each in the file of its level.
Launch prepare_serial(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_rows(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_merge(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::multiply::gpu::sparse
