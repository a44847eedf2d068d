#pragma once

#include "formats/hdf5/source.hpp"

namespace gpumat::formats::hdf5 {

/// For a dataset whose elements lie in other files (external storage, or a virtual dataset): throws
/// Error{input} unless `options` allow that, and where a piece is missing or short. HDF5 itself would
/// deliver zeros or fill values in its place.
void require_external_pieces(const Source& source, const Dense& dense, const ReadOptions& options);

/// Throws Error{input} where the elements are not all in the dataset's own file, or were never written and
/// have no fill value: HDF5 would deliver zeros, or whatever is in memory.
void require_stored(hid_t dataset, const std::string& what);

/// Throws Error{input} where a chunk of a virtual dataset's pieces is damaged. To be called in a child.
void check_pieces(const Source& source, const Dense& dense);

}  // namespace gpumat::formats::hdf5
