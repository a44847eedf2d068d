#pragma once

#include <optional>

#include "formats/format.hpp"
#include "lib/matrices/stored_statistics.hpp"

namespace gpumat {

/// The statistics of a sparse matrix by ranges of its rows or columns, of which each thread reads its own: of
/// the entries alone. A square matrix that may be symmetric goes through a temporary file, too, by the other
/// lines; where it `fits` into memory, there is nothing for one that may. Nothing either where the memory
/// limit of `options` has no room. Throws as `stored_statistics`.
std::optional<StoredStatistics> statistics_by_ranges(formats::Reader& reader,
                                                     const formats::ReadOptions& options, bool fits);

/// The least limit with which that goes, as far as it is known before the entries are counted.
std::uint64_t least_for_ranges(const formats::Reader& reader);

}  // namespace gpumat
