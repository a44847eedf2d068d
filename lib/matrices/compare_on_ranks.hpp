#pragma once

#include "lib/matrices/compare.hpp"

namespace gpumat {

/// Compares on the team of the options: each rank has rows of X, and the same of Y or of its transpose.
/// Throws as `compare`; the headers fit together.
Comparison compare_on_ranks(formats::Reader& x, formats::Reader& y, const CompareOptions& options,
                            formats::Writer* mismatch);

}  // namespace gpumat
