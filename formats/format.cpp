#include "formats/format.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/error.hpp"
#include "core/sparse/coo.hpp"

namespace gpumat::formats {

namespace {

/// "FILE.h5:name": of a file that exists, or is named as an HDF5 file.
std::optional<Reference> reference_without_slash(const std::string& text) {
    std::error_code ignored;
    for (auto colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
        const std::string path = text.substr(0, colon);
        const bool is_file = path.ends_with(".h5") || path.ends_with(".hdf5") || path.ends_with(".mat") ||
                             path.ends_with(".npz") || std::filesystem::is_regular_file(path, ignored);
        if (is_file && colon + 1 < text.size()) return Reference{path, "/" + text.substr(colon + 1)};
    }
    return {};
}

}  // namespace

Reference parse_reference(const std::string& text) {
    std::error_code ignored;
    const auto first = text.find(":/");
    if (first == std::string::npos && !std::filesystem::exists(text, ignored)) {
        if (auto found = reference_without_slash(text)) return *std::move(found);
    }
    if (first == std::string::npos || std::filesystem::exists(text, ignored) ||
        std::filesystem::is_directory(std::filesystem::path(text).parent_path(), ignored)) {
        return {text, ""};
    }
    for (auto colon = first; colon != std::string::npos; colon = text.find(":/", colon + 1)) {
        if (std::filesystem::exists(text.substr(0, colon), ignored))
            return {text.substr(0, colon), text.substr(colon + 1)};
    }
    for (auto colon = first; colon != std::string::npos; colon = text.find(":/", colon + 1)) {
        const bool ends_a_folder = std::filesystem::is_directory(text.substr(0, colon + 1), ignored);
        if (!ends_a_folder) return {text.substr(0, colon), text.substr(colon + 1)};
    }
    return {text, ""};
}

std::string plain_dataset(const std::string& dataset) {
    std::string name;
    for (std::size_t begin = 0; begin <= dataset.size();) {
        const std::size_t end = std::min(dataset.find('/', begin), dataset.size());
        const std::string part = dataset.substr(begin, end - begin);
        if (!part.empty() && part != ".") name += "/" + part;
        begin = end + 1;
    }
    return name;
}

std::string to_string(const Reference& reference) {
    return reference.dataset.empty() ? reference.path : reference.path + ":" + reference.dataset;
}

std::string Reader::file() const {
    const std::string& path = header().source.path;
    return path == "-" ? "/dev/stdin" : path;  // may be a file
}

std::vector<std::string> Reader::files() const {
    std::vector<std::string> all = other_files();
    all.push_back(file());
    return all;
}

void Reader::read_entries(const std::function<void(const Entries&)>& /*take*/) {
    throw Error(ErrorCode::usage, to_string(header().source) + ": found storage '" + header().storage +
                                      "', expected entries in coordinate storage");
}

Csr Reader::read_sparse(std::int64_t& /*duplicates*/) {
    throw Error(ErrorCode::usage,
                to_string(header().source) + ": found storage '" + header().storage + "', expected entries");
}

Csr Reader::read_as_text(ValueTexts& /*texts*/, std::int64_t& /*duplicates*/) {
    throw Error(ErrorCode::usage, to_string(header().source) + ": found storage '" + header().storage +
                                      "', expected values as text");
}

std::vector<std::int64_t> Reader::count_entries(std::int64_t /*step*/) {
    throw Error(ErrorCode::usage, to_string(header().source) + ": found storage '" + header().storage +
                                      "', expected compressed rows or columns");
}

Csr Reader::read_lines(const Block& /*block*/, std::int64_t& /*duplicates*/) {
    throw Error(ErrorCode::usage, to_string(header().source) + ": found storage '" + header().storage +
                                      "', expected compressed rows or columns");
}

std::uint64_t sparse_reading_bytes(const Header& header) {
    return to_csr_bytes(header.shape, header.type, header.most_entries.value_or(0));
}

Matrix read_whole(Reader& reader, const ReadOptions& options) {
    const Header& header = reader.header();
    const std::string name = to_string(header.source);
    const std::uint64_t beside = reader.open_bytes() + reader.working_bytes();
    std::string what =
        name + ": a dense " + to_string(header.shape) + " matrix of " + std::string(name_of(header.type));
    if (beside > 0) {
        const std::string words = reader.open_words();
        what += " with " + format_bytes(beside) + " to read it (" + (words.empty() ? header.storage : words) +
                ")";
    }
    const std::uint64_t bytes = dense_bytes(header.shape, header.type, name) + beside;
    require_memory(bytes, options.memory_limit, what);
    if (options.memory_limit) reader.set_spare(*options.memory_limit - bytes);
    Matrix matrix(header.shape, header.type, name);
    reader.read(Block::whole(header.shape), matrix.view());
    return matrix;
}

}  // namespace gpumat::formats
