#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/core/error.hpp"

namespace gpumat::formats::hdf5 {

constexpr std::uint64_t kMostSeconds = 600;  ///< of processor time, whatever the size of a file

/// Runs `task` in a forked child, within bounds of processor time and memory that grow with the file at
/// `path` and with the `result_bytes` that `task` makes: on some damaged files HDF5 or a filter loops for
/// ever, crashes, or asks for any amount of memory. Returns where the child came to the end of `task`: what
/// it did to SharedMemory is there, and the caller can do the rest again itself. Throws the Error that `task`
/// threw there, or Error{code} where the child did not survive: with how it ended, naming what it said with
/// `now_reading`, or else `shown`.
///
/// `more_seconds` of processor time are allowed beside that.
///
/// The caller holds a Session. `task` starts no threads.
void try_in_child(const std::string& path, const std::string& shown, ErrorCode code,
                  const std::function<void()>& task, std::uint64_t result_bytes = 0, double more_seconds = 0);

/// The same for a `task` that has something to tell, which this returns.
std::string ask_child(const std::string& path, const std::string& shown, ErrorCode code,
                      const std::function<std::string()>& task, std::uint64_t result_bytes = 0,
                      double more_seconds = 0);

/// Says what the child that runs this reads from now on ("FILE:/A"), in case that it does not survive. Does
/// nothing outside of a child.
void now_reading(const std::string& what);

/// Widens the bounds of the child that runs this, because of what its task found in the file: to no more than
/// kMostSeconds. Does nothing outside of a child.
void extend_bounds(double seconds, std::uint64_t memory_bytes);

}  // namespace gpumat::formats::hdf5
