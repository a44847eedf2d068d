#pragma once

#include <hdf5.h>

#include <cstddef>
#include <optional>
#include <span>

namespace gpumat::formats::hdf5 {

constexpr H5Z_filter_t kLzfFilter = 32000;  ///< h5py's, registered with The HDF Group

/// The bytes that an LZF stream makes, written to the start of `to`, and how many they are. Nothing where the
/// stream is malformed or makes more than `to` holds. Reads nothing but `data`.
std::optional<std::size_t> unpack_lzf(std::span<const std::byte> data, std::span<std::byte> to);

/// Gives HDF5 this decoder for the chunks that it decodes itself. HDF5 comes without one: h5py brings its
/// own. Under a Session.
void register_lzf();

}  // namespace gpumat::formats::hdf5
