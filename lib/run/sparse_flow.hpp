#pragma once

#include "lib/run/flow.hpp"

namespace gpumat {

/// What a flow of sparse matrices found.
struct SparseCounts {
    std::int64_t entries = 0;     ///< of the input and of the result
    std::int64_t duplicates = 0;  ///< entries of the input that were added to others
    std::int64_t zeros = 0;       ///< entries that are stored and are zero
};

/// Makes the writer of a result with so many entries.
using OpenSparse = std::function<std::unique_ptr<formats::SparseWriter>(std::int64_t entries)>;

/// Reads the input, computes, verifies and writes, one after the other, each with all that the one before it
/// gave. Where verification fails nothing is written, unless `keep_failed`. Throws Error.
FlowResult sparse_flow(const Plan& plan, const RunOptions& options, const OpenSparse& open,
                       Progress& progress, SparseCounts& counts);

}  // namespace gpumat
