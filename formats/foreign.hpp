#pragma once

#include <string>
#include <string_view>

namespace gpumat::formats {

/// What a file of no known format is by its first bytes, and how it is brought into one, for messages: "a
/// MATLAB 5 file; …". Empty where that is not known. `unpacked` is what gzip makes of `head`.
std::string foreign_format(std::string_view head, std::string_view unpacked, const std::string& path);

}  // namespace gpumat::formats
