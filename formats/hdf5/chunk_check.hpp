#pragma once

#include <string>

#include "formats/hdf5/library.hpp"

namespace gpumat::formats::hdf5 {

/// Decodes every chunk of a dataset of any number of dimensions, for nothing but to see whether it is
/// damaged: what H5Dread does not see when it reads a whole dataset, or one behind a virtual one. Throws
/// Error{input} with `what`. To be called in a child (`try_in_child`).
void check_chunks(hid_t dataset, const std::string& what);

}  // namespace gpumat::formats::hdf5
