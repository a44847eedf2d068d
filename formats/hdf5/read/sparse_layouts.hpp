#pragma once

#include <optional>
#include <string>

#include "formats/hdf5/read/source.hpp"

namespace gpumat::formats::hdf5 {

/// The matrix in a group that is a sparse matrix as MATLAB, AnnData, 10x Genomics, Seurat, SciPy, cooler or
/// binsparse store it; nothing where the group is none of these. Throws Error{input} where the group says
/// that it is one and its parts do not fit together.
std::optional<Found> describe_sparse_layout(const Source& source, hid_t group, const ReadOptions& options);

/// Whether the attribute of a group says how a sparse matrix lies in it, which is not true of another one.
bool is_of_sparse_layout(const std::string& attribute);

/// The matrix in the group `value` of a sparse one of Octave.
Found describe_octave_sparse(const Source& source, hid_t group, const ReadOptions& options);

}  // namespace gpumat::formats::hdf5
