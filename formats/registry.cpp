#include "formats/registry.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/hdf5/hdf5.hpp"
#include "formats/matrix_market/matrix_market.hpp"
#include "lib/core/error.hpp"

namespace gpumat::formats {
namespace {

constexpr std::size_t kHeadBytes = 4096;

/// The first bytes of a regular file. Throws Error{input} where there are none to read.
std::string head_of(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
        throw Error(ErrorCode::input, path + ": " + std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) throw Error(ErrorCode::input, path + ": is a directory, expected a file");
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Error(ErrorCode::input, path + ": cannot be opened: " + std::strerror(errno));
    std::string head(kHeadBytes, '\0');
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(file.gcount()));
    if (head.empty()) throw Error(ErrorCode::input, path + ": is empty, expected a matrix");
    return head;
}

const Format* find(std::string_view name) {
    const auto found = std::ranges::find(all_formats(), name, &Format::name);
    return found == all_formats().end() ? nullptr : &*found;
}

std::string known_formats() {
    std::string text;
    for (const Format& format : all_formats()) text += (text.empty() ? "" : ", ") + std::string(format.name);
    return text;
}

}  // namespace

std::span<const Format> all_formats() {
    static constexpr std::array<std::string_view, 2> kHdf5Extensions = {".h5", ".hdf5"};
    static constexpr std::array<std::string_view, 2> kMatrixMarketExtensions = {".mtx", ".mm"};
    static const std::array kFormats = {
        Format{"hdf5", kHdf5Extensions, true, hdf5::recognises, hdf5::list, hdf5::open, hdf5::create,
               hdf5::require_writable},
        Format{"matrix-market", kMatrixMarketExtensions, false, matrix_market::recognises,
               matrix_market::list, matrix_market::open, matrix_market::create, nullptr},
    };
    return kFormats;
}

bool is_stream(const std::string& path) {
    struct stat status {};
    return path == "-" ||
           (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

const Format& recognise(const Reference& reference) {
    if (is_stream(reference.path)) {
        if (reference.dataset.empty()) return *find("matrix-market");
        throw Error(
            ErrorCode::usage,
            to_string(reference) + ": a dataset cannot be read from " +
                (reference.path == "-" ? "standard input" : "a pipe") +
                ": HDF5 is read from files only, so name the file; what comes through a pipe is Matrix "
                "Market, which has no datasets");
    }
    const std::string head = head_of(reference.path);
    for (const Format& format : all_formats()) {
        if (format.recognises(head, reference.path)) return format;
    }
    throw Error(ErrorCode::input, reference.path + ": is of no known format (" + known_formats() + ")");
}

bool exists_as(const std::string& path, const Format& format) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored) || std::filesystem::file_size(path, ignored) == 0)
        return false;
    return format.recognises(head_of(path), path);
}

const Format& format_for_writing(const std::string& path, std::string_view to) {
    if (!to.empty()) {
        if (const Format* format = find(to)) return *format;
        throw Error(ErrorCode::usage,
                    "there is no format '" + std::string(to) + "'; known: " + known_formats());
    }
    if (path == "-") return *find("matrix-market");
    std::string extensions;
    for (const Format& format : all_formats()) {
        for (const std::string_view extension : format.extensions) {
            if (path.ends_with(extension)) return format;
            extensions += (extensions.empty() ? "" : ", ") + std::string(extension);
        }
    }
    throw Error(ErrorCode::usage, path + ": the extension names no format to write; known: " + extensions +
                                      " (or name the format with --to)");
}

std::unique_ptr<Reader> open_reader(const Reference& reference, const ReadOptions& options) {
    return recognise(reference).open(reference, options);
}

}  // namespace gpumat::formats
