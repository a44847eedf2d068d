#pragma once

#include <vector>

#include "formats/hdf5/library.hpp"

namespace gpumat::formats::hdf5 {

/// A part of a file, counted from its first byte.
struct Extent {
    haddr_t begin = 0;
    hsize_t bytes = 0;
    bool operator==(const Extent&) const = default;
};

/// A file access property list with which HDF5 opens the file that `descriptor` is of, whatever name it is
/// told. The descriptor must stay open as long as the file is, and HDF5 does not close it. Nothing is locked
/// but by whoever opened the descriptor. The caller holds a Session.
///
/// Where HDF5 looks for anything but elements in `hidden`, it finds nonsense. They must stay as long as the
/// file is open.
Handle access_through(int descriptor, const std::vector<Extent>* hidden = nullptr);

}  // namespace gpumat::formats::hdf5
