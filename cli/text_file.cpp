#include "cli/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "lib/core/error.hpp"

namespace gpumat::cli {

std::string text_of_file(const std::string& path) {
    if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
    if (!file && !file.eof())
        throw Error(ErrorCode::input, path + ": cannot be read: " + std::strerror(errno));
    return text.str();
}

}  // namespace gpumat::cli
