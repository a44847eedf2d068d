#pragma once

#include <cstdint>
#include <memory>

#include "formats/format.hpp"
#include "formats/hdf5/write/dataset_file.hpp"

namespace gpumat::formats::hdf5 {

/// As require_writable, of a sparse matrix in the layout that the options name.
void require_sparse_writable(const WriteTarget& target, Type type, const WriteOptions& options);

/// A writer of one array of a sparse matrix, as a column of so many numbers.
std::unique_ptr<Writer> create_part(const WriteTarget& target, std::int64_t count, Type type,
                                    const WriteOptions& options, const SparseGroup& group);

}  // namespace gpumat::formats::hdf5
