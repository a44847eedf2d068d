#pragma once

#include <optional>

#include "formats/hdf5/read/source.hpp"

namespace gpumat::formats::hdf5 {

/// The matrix in a group that is a sparse matrix as AnnData, 10x Genomics, Seurat, cooler or binsparse store
/// it; nothing where the group is none of these. What it is, is known; it cannot be read yet. Throws
/// Error{input} where the group says that it is one and its parts do not fit together.
std::optional<Found> describe_sparse_layout(const Source& source, hid_t group, const ReadOptions& options);

}  // namespace gpumat::formats::hdf5
