#pragma once

#include <string>

#include "formats/format.hpp"
#include "lib/matrices/statistics.hpp"

namespace gpumat {

struct StoredStatistics {
    Statistics statistics;
    std::string hash;  ///< content hash
};

/// Reads a matrix block by block, as far as the memory limit of `options` goes, and once more in pairs of
/// blocks where it may be symmetric: a sparse one as a whole where it fits, else by ranges of its rows or
/// columns. One of a stream is in memory as a whole where it is square. Throws as
/// the reader does, Error{input} where the file changes meanwhile, and Error{memory} with the least that
/// would do.
StoredStatistics stored_statistics(formats::Reader& reader, const formats::ReadOptions& options);

}  // namespace gpumat
