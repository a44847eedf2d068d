#pragma once

#include <memory>

#include "formats/hdf5/storage.hpp"

namespace gpumat::formats::hdf5 {

/// Reads the whole compressed matrix, within the memory limit, checks it, and delivers rectangles of it
/// dense. `source` and `sparse` must outlive it. Throws Error{input} for what is no compressed matrix.
std::unique_ptr<Storage> open_sparse_storage(const Source& source, const Sparse& sparse,
                                             const ReadOptions& options);

}  // namespace gpumat::formats::hdf5
