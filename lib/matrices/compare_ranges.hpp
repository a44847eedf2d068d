#pragma once

#include <optional>

#include "formats/format.hpp"
#include "lib/matrices/compare.hpp"

namespace gpumat {

/// Whether the entries of both sparse matrices lie by the same lines in their files: by rows, or by columns;
/// where Y is to be X's transpose, by those that are the same then.
bool lie_by_same_lines(const formats::Reader& x, const formats::Reader& y, bool transposed);

/// Compares the entries of two sparse matrices by ranges of rows or columns, of which each thread reads one
/// of both into memory that it uses again. Where entries do not lie by those, a temporary file has them
/// first. Nothing where the memory limit has no room for that and both are served otherwise: where they `fit`
/// into it, or in dense blocks that read a text a few times at most. Nothing either where there is no limit,
/// the matrices pass what is available and their files are too small for them. Throws as `compare`.
std::optional<ElementFindings> compare_by_ranges(formats::Reader& x, formats::Reader& y,
                                                 const CompareOptions& options, bool fit);

}  // namespace gpumat
