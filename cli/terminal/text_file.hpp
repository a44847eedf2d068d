#pragma once

#include <string>

namespace gpumat::cli {

/// All that a text holds, to its end where it comes through a pipe; standard input where the path is "-". A
/// pipe by name into which nobody writes is taken for empty after two seconds. Throws Error{input} for what
/// cannot be read, holds a zero byte or more than 1 GiB, and Error{memory}.
std::string text_of_file(const std::string& path);

}  // namespace gpumat::cli
