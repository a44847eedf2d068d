#pragma once

#include "kernels/check/stored_matrices.hpp"
#include "lib/engines/ranks.hpp"

namespace gpumat::engines {

/// By all ranks: rank 0 takes what each of them has, in their order and some at a time, so that it needs
/// little memory beside. Throws Error{unsupported} on all where one has too much for a message; what `take`
/// throws, at the end.
void gather_in_turn(Ranks& ranks, std::span<const std::byte> own, const TakeBytes& take);

}  // namespace gpumat::engines
