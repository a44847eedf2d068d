#pragma once

#include <string>

namespace gpumat {

/// "." for a name alone.
std::string folder_of(const std::string& path);

/// What follows the last '/'.
std::string name_in_folder(const std::string& path);

/// The file that a chain of symbolic links ends at, which need not exist. The path itself where the chain
/// has no end.
std::string follow_links(const std::string& path);

/// One name for every path to a file, whether it exists or not.
std::string one_name(const std::string& path);

/// Whether both paths lead to one file, now or once it is made.
bool same_place(const std::string& x, const std::string& y);

}  // namespace gpumat
