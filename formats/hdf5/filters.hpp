#pragma once

#include <cstddef>
#include <vector>

#include "formats/hdf5/source.hpp"

namespace gpumat::formats::hdf5 {

constexpr H5Z_filter_t kLzfFilter = 32000;  ///< h5py's, registered with The HDF Group

/// Groups the first bytes of all elements, then the second ones …, as HDF5's shuffle filter does. Bytes
/// beyond the last whole element are copied as they are.
void shuffle(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t element_bytes);

/// Compresses into `to` as HDF5's deflate filter does. False, and `to` is unspecified, where that makes
/// nothing smaller; the filter is then skipped for the chunk.
bool deflate(const std::byte* from, std::size_t bytes, int level, std::vector<std::byte>& to);

}  // namespace gpumat::formats::hdf5
