#pragma once

#include <sys/stat.h>

#include <string>

#include "core/descriptor.hpp"

namespace gpumat {

/// Opens for writing what is there and is no regular file: a FIFO, a device. What is opened must be what was
/// looked at. A FIFO is waited for until somebody reads from it, for some seconds. Throws Error{output} that
/// begins with `what`.
Descriptor open_special_output(const std::string& path, const struct stat& present, const std::string& what);

}  // namespace gpumat
