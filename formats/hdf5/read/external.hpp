#pragma once

#include <cstdint>
#include <string>

#include "formats/hdf5/read/source.hpp"

namespace gpumat::formats::hdf5 {

/// What a virtual dataset and its pieces ask of who reads it.
struct PieceNeeds {
    Shape largest{1, 1};            ///< the largest chunk of two dimensions
    std::uint64_t chunk_bytes = 0;  ///< of the largest chunk of any
    std::uint64_t open_bytes = 0;   ///< that HDF5 takes for mappings, and for pieces while it reads them
    std::string words;              ///< what these are made of
    double seconds = 0;  ///< of processor time that mappings and pieces may take, beside what is read
};

/// For a dataset whose elements lie in other files (external storage, or a virtual dataset): throws
/// Error{input} unless `options` allow that, and where a piece is missing or short, for which HDF5 itself
/// would deliver zeros or fill values; Error{memory} where what HDF5 keeps in memory for the mappings passes
/// the limit. Widens the bounds of the child that runs this, if any, with what it finds.
PieceNeeds require_external_pieces(const Source& source, const Dense& dense, const ReadOptions& options);

/// Throws Error{input} where a dataset with these creation properties is a virtual one that grows with its
/// pieces. To be called before HDF5 is asked for the extents of the dataset: it would open the pieces of such
/// a one, whatever they are.
void require_fixed_size(hid_t creation, const std::string& what);

/// Throws Error{memory} where the mappings of a virtual dataset with these creation properties, which HDF5
/// keeps while the dataset is open, pass the memory limit.
void require_room_for_mappings(hid_t creation, const ReadOptions& options, const std::string& what);

/// Throws Error{input} where the elements are not all in the dataset's own file, or were never written and
/// have no fill value: HDF5 would deliver zeros, or whatever is in memory.
void require_stored(hid_t dataset, const std::string& what);

}  // namespace gpumat::formats::hdf5
