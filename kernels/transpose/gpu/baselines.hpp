#pragma once

#include "kernels/level.hpp"

namespace gpumat::transpose::gpu {

/// What the transpose ladder is measured against: copies of the same matrix (`copies` is set: the result is
/// the input, m×n), and the transpose of the vendor's library. All need c apart from a.
std::span<const Level> baselines();

/// The reason of every baseline that is asked to work in place.
Reasons baseline_reasons(const Problem& problem, const Operands&, const Device& device);

Launch prepare_copy(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_copy_kept(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_copy_shared(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_copy_strided(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_memcpy(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);
Reasons vendor_unsupported(const Problem& problem, const Operands&, const Device& device);

}  // namespace gpumat::transpose::gpu
