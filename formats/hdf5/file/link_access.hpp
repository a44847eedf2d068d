#pragma once

#include <hdf5.h>

namespace gpumat::formats::hdf5 {

/// The properties with which objects behind external links are opened (a dataset's access properties, which
/// are properties of links too): a link to a file that is no regular one fails with that reason. HDF5 would
/// wait for a pipe without an end.
hid_t link_access();

}  // namespace gpumat::formats::hdf5
