#include "formats/registry.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "formats/foreign.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/matrix_market/matrix_market.hpp"
#include "formats/npy/npy.hpp"
#include "formats/npz/npz.hpp"

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
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) throw Error(ErrorCode::input, path + ": cannot be opened: " + std::strerror(errno));
    std::string head(kHeadBytes, '\0');
    ssize_t got = 0;
    do {
        got = read(file.number(), head.data(), head.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) throw Error(ErrorCode::input, path + ": cannot be read: " + std::strerror(errno));
    head.resize(static_cast<std::size_t>(got));
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

const Format& format_named(std::string_view name) {
    if (const Format* format = find(name)) return *format;
    throw Error(ErrorCode::usage,
                "there is no format '" + std::string(name) + "'; known: " + known_formats());
}

std::span<const Format> all_formats() {
    static constexpr std::array<std::string_view, 3> kHdf5Extensions = {".h5", ".hdf5", ".mat"};
    static constexpr std::array<std::string_view, 4> kMatrixMarketExtensions = {".mtx", ".mm", ".mtx.gz",
                                                                                ".mm.gz"};
    static constexpr std::array<std::string_view, 1> kNpyExtensions = {".npy"};
    static constexpr std::array<std::string_view, 1> kNpzExtensions = {".npz"};
    static const std::array kFormats = {
        Format{"hdf5", kHdf5Extensions, true, true, hdf5::recognises, hdf5::list, hdf5::open, hdf5::create,
               hdf5::create_sparse, hdf5::sparse_writing_bytes, hdf5::require_writable, BlockOrder::any,
               hdf5::writing_grain, hdf5::writing_bytes, true},
        Format{"matrix-market", kMatrixMarketExtensions, false, false, matrix_market::recognises,
               matrix_market::list, matrix_market::open, matrix_market::create, matrix_market::create_sparse,
               matrix_market::sparse_writing_bytes, nullptr, BlockOrder::column_panels, nullptr,
               matrix_market::writing_bytes, false},
        Format{"npy", kNpyExtensions, false, true, npy::recognises, npy::list, npy::open, npy::create,
               nullptr, nullptr, npy::require_writable, BlockOrder::row_panels, nullptr, nullptr, true},
        Format{"npz", kNpzExtensions, false, true, npz::recognises, npz::list, npz::open, npz::create,
               npz::create_sparse, npz::sparse_writing_bytes, npz::require_writable, BlockOrder::row_panels,
               nullptr, nullptr, true},
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
                ": what comes through a pipe is Matrix Market, which has no datasets, unless --from says "
                "another format");
    }
    const std::string head = head_of(reference.path);
    for (const Format& format : all_formats()) {
        if (format.recognises(head, reference.path)) return format;
    }
    const std::string foreign = foreign_format(head, matrix_market::text_of_gzip(head), reference.path);
    throw Error(ErrorCode::input, reference.path + ": is of no known format (" + known_formats() + ")" +
                                      (foreign.empty() ? "" : ": it is " + foreign));
}

bool exists_as(const std::string& path, const Format& format) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored) || std::filesystem::file_size(path, ignored) == 0)
        return false;
    try {
        return format.recognises(head_of(path), path);
    } catch (const Error& error) {  // it is to be written to
        throw Error(ErrorCode::output, error.what());
    }
}

const Format& format_for_writing(const std::string& path, std::string_view to) {
    if (!to.empty()) return format_named(to);
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

void check_ahead(std::span<const AheadCheck> checks) {
    hdf5::check_ahead(checks);
}

bool is_kept_stream(const Reference& reference, const ReadOptions& options) {
    return !options.from.empty() && format_named(options.from).needs_file && is_stream(reference.path);
}

std::unique_ptr<Reader> open_reader(const Reference& reference, const ReadOptions& options) {
    return Container(reference, options).open(reference.dataset);
}

}  // namespace gpumat::formats
