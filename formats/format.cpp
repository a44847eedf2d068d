#include "formats/format.hpp"

#include <filesystem>

namespace gpumat::formats {

Reference parse_reference(const std::string& text) {
    const auto colon = text.find(":/");
    std::error_code ignored;
    if (colon == std::string::npos || std::filesystem::exists(text, ignored)) return {text, ""};
    return {text.substr(0, colon), text.substr(colon + 1)};
}

std::string to_string(const Reference& reference) {
    return reference.dataset.empty() ? reference.path : reference.path + ":" + reference.dataset;
}

Matrix read_whole(Reader& reader, const ReadOptions& options) {
    const Header& header = reader.header();
    const std::string name = to_string(header.source);
    const std::string what =
        name + ": a dense " + to_string(header.shape) + " matrix of " + std::string(name_of(header.type));
    require_memory(dense_bytes(header.shape, header.type, name), options.memory_limit, what);
    Matrix matrix(header.shape, header.type, name);
    reader.read(Block::whole(header.shape), matrix.view());
    return matrix;
}

}  // namespace gpumat::formats
