#pragma once

#include <functional>

#include "core/numbers/matrix.hpp"
#include "lib/engines/layout.hpp"
#include "lib/engines/ranks.hpp"

// Between panels of whole rows, as files have them, and the blocks that ranks have: in rounds of one exchange
// each, so that memory and counts of bytes are bounded.

namespace gpumat::engines {

/// In each round the first `owners` ranks have a panel each, of so many rows, one below the other.
struct Panels {
    int owners = 1;
    std::int64_t rows = 1;
};

/// Panels of bounded size for so many owners.
Panels panels_for(const Layout& layout, int owners);

/// Host memory of a rank that moving takes beside the blocks.
std::uint64_t moving_bytes(const Layout& layout, const Panels& panels);

/// Fills or takes a panel, whose first row is the one of the matrix. May throw: the panels go on being moved,
/// so that nobody waits, and the failure is thrown at the end, on this rank.
using FillPanel = std::function<void(std::int64_t first, const MutableMatrixView& panel)>;
using TakePanel = std::function<void(std::int64_t first, const MutableMatrixView& panel)>;

/// By all ranks: what owners fill becomes the ranks' blocks. Throws Error{unsupported}, as `collect` does,
/// where a row is too long for one message.
void spread(Ranks& ranks, const Layout& layout, const Panels& panels, const FillPanel& fill,
            std::byte* blocks);

/// By all ranks: owners get what the ranks' blocks are; those of one rank alone are given where they lie.
void collect(Ranks& ranks, const Layout& layout, const Panels& panels, std::byte* blocks,
             const TakePanel& take);

/// Each rank for itself, where ranks have panels: its rows, some at a time, few enough to stay in a cache.
void each_piece(const Layout& layout, int rank, std::byte* blocks, const TakePanel& take);

/// Rows of a rectangle that are fetched in one message.
std::int64_t rows_at_once(const Layout& layout, const Block& block);

/// By all ranks: rank 0 gets a rectangle of bounded size, without gaps, in `out`, which the others do not
/// have.
void fetch(Ranks& ranks, const Layout& layout, const Block& block, const std::byte* blocks, std::byte* out);

}  // namespace gpumat::engines
