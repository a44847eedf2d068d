#pragma once

#include <string>

namespace gpumat::cli {

/// All that a file holds; of standard input where the path is "-". Throws Error{input}.
std::string text_of_file(const std::string& path);

}  // namespace gpumat::cli
