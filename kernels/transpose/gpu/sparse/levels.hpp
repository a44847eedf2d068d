#pragma once

#include "kernels/level.hpp"

namespace gpumat::transpose::gpu::sparse {

/// The ladder of the GPU for sparse matrices, first rung first, then the vendor's library.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

/// The reason of every level, where a transpose in place is asked for.
Reasons in_place_unsupported(const Problem& problem, const Operands&, const Device&);
Reasons sorted_unsupported(const Problem& problem, const Operands& operands, const Device& device);
Reasons blocked_unsupported(const Problem& problem, const Operands& operands, const Device& device);
Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device& device);

// One function a level, each in the file of its level.
Launch prepare_atomic(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_sorted(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_blocked(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_onesweep(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::transpose::gpu::sparse
