#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

namespace gpumat {

/// Gives the open file `to` what others know of the file at `path`, of which `present` tells: owner, mode,
/// access control list and extended attributes. Returns what cannot be kept, in words. Where the group or the
/// list is among that, the group gets no permission that others have not.
std::vector<std::string> copy_file_attributes(const std::string& path, const struct stat& present, int to);

}  // namespace gpumat
