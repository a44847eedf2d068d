#pragma once

#include <optional>

#include "kernels/level.hpp"
#include "kernels/operation.hpp"
#include "lib/engines/layout.hpp"
#include "lib/engines/ranks.hpp"

namespace gpumat::engines {

/// What the rank has of a problem whose input the ranks have in panels; nothing where it has no rows.
std::optional<ProblemPart> part_of(const Problem& problem, const Layout& input, int rank);

/// Bytes of what the part gives that is to be combined with others; 0 where it gives results.
std::size_t unfinished_bytes(const ProblemPart& part);

/// By all ranks: each has the level compute its part. Parts that share results are combined at rank 0, in the
/// order of ranks; the others are results of the rank's own.
void compute_parts(Ranks& ranks, const Level& level, const Problem& problem, const Layout& input,
                   const std::byte* rows, const Layout& result, std::byte* out, int threads);

}  // namespace gpumat::engines
