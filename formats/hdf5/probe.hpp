#pragma once

#include <functional>
#include <string>

#include "lib/core/error.hpp"

namespace gpumat::formats::hdf5 {

/// Runs `task` in a forked child first, within bounds of processor time and memory that grow with the file
/// at `path`: on some damaged files HDF5 loops for ever, crashes, or asks for any amount of memory. Returns
/// where the child came to the end of `task`, so that the caller can do the same itself. Throws the Error
/// that `task` threw there, or Error{code} naming `shown` where the child did not survive.
///
/// The caller holds a Session. `task` starts no threads.
void try_in_child(const std::string& path, const std::string& shown, ErrorCode code,
                  const std::function<void()>& task);

}  // namespace gpumat::formats::hdf5
