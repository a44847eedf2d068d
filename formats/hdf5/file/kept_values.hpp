#pragma once

#include <string>

#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

/// What HDF5 keeps of an object beside the elements of datasets, as bytes to be compared: the attributes, and
/// elements of variable length, unless they are very many. What cannot be read is said to be so.
std::string kept_values(hid_t object);

}  // namespace gpumat::formats::hdf5
