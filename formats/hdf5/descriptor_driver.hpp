#pragma once

#include "formats/hdf5/library.hpp"

namespace gpumat::formats::hdf5 {

/// A file access property list with which HDF5 opens the file that `descriptor` is of, whatever name it is
/// told. The descriptor must stay open as long as the file is, and HDF5 does not close it. Nothing is locked
/// but by whoever opened the descriptor. The caller holds a Session.
Handle access_through(int descriptor);

}  // namespace gpumat::formats::hdf5
