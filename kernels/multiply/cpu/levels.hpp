#pragma once

#include "kernels/level.hpp"

namespace gpumat::multiply::cpu {

/// The multiply ladder of the CPU, first rung first.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first.
std::vector<Preference> preference(const Problem& problem, const Device& device);

/// The parameters of `tiled`.
std::span<const Parameter> tiled_parameters();

/// Why `vendor` cannot run: no OpenBLAS, or a size beyond its integers.
Reasons vendor_unsupported(const Problem& problem, const Operands&, const Device& device);

// One function a level, each in the file of its level.
Launch prepare_naive(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_interchanged(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_outer_product(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::multiply::cpu
