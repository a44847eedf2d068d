#include "formats/hdf5/read/contents.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "formats/hdf5/read/sparse.hpp"
#include "formats/hdf5/read/sparse_layouts.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr int kMostListed = 20;

std::uint64_t bytes_of_file(const std::string& path) {
    std::error_code none;
    const std::uintmax_t bytes = std::filesystem::file_size(path, none);
    return none ? 0 : bytes;
}

/// The rectangles of what is stored that cost no more than their share: chunks, runs of rows of a page,
/// rows of a sparse matrix. Other storage is read through the library, row by row.
Shape stored_grain(const Source& source) {
    constexpr std::int64_t kRunBytes = 4096;
    const auto* dense = std::get_if<Dense>(&source.where);
    if (dense != nullptr && dense->layout == H5D_CHUNKED) return dense->chunk;
    if (dense != nullptr && dense->layout == H5D_CONTIGUOUS)
        return {1, kRunBytes / static_cast<std::int64_t>(source.element.memory_bytes)};
    return {1, source.stored.cols};
}

/// The grain of the matrix.
Shape grain_of(const Source& source) {
    const Shape stored = stored_grain(source);
    return source.reversed ? stored.transposed() : stored;
}

/// Why it cannot be read yet; empty where it can.
std::string why_unread(const Source& source) {
    const auto* unread = std::get_if<Unread>(&source.where);
    return unread == nullptr ? "" : unread->what + ", which cannot be read yet";
}

/// What a matrix is in to which MATLAB only refers: its name is none that somebody gave.
std::string_view surroundings_of(const std::string& dataset) {
    return dataset.starts_with("/#refs#/") ? ", in a cell, struct array or object (MATLAB)" : "";
}

/// How it is stored in chunks, as the matrix has them; how the values of a sparse one are.
std::optional<Chunking> chunking_of(const Source& source) {
    constexpr unsigned kMostDeflate = 9;
    if (const auto* sparse = std::get_if<Sparse>(&source.where))
        return sparse->values ? chunking_of(*sparse->values) : std::nullopt;
    const auto* dense = std::get_if<Dense>(&source.where);
    if (dense == nullptr || dense->layout != H5D_CHUNKED) return {};
    const Shape chunk = grain_of(source);
    Chunking found{.chunk = {chunk.rows, chunk.cols}};
    for (const Filter& filter : dense->filters) {
        if (filter.id == H5Z_FILTER_DEFLATE) {
            found.deflate =
                filter.values.empty() ? 1 : static_cast<int>(std::min(filter.values[0], kMostDeflate));
        } else if (filter.id == H5Z_FILTER_SHUFFLE) {
            found.shuffle = true;
        } else if (filter.id == H5Z_FILTER_FLETCHER32) {
            found.fletcher32 = true;
        } else {
            found.others += (found.others.empty() ? "" : ", ") + filter.name;
        }
    }
    return found;
}

}  // namespace

Header header_of(const Source& source, const std::string& path) {
    Header header;
    header.format = "hdf5";
    header.source = {path, source.dataset};
    header.shape = source.shape();
    header.type = source.type();
    header.storage = source.storage + std::string(surroundings_of(source.dataset));
    header.stored_entries = source.entries;
    header.most_entries = most_entries(source);
    if (const auto* sparse = std::get_if<Sparse>(&source.where)) header.sparse_layout = sparse->kept_as;
    header.unread = why_unread(source);
    header.packing = source.packed_by;
    header.unpacked = source.packing.has_value();
    header.file_bytes = bytes_of_file(path);
    header.grain = grain_of(source);
    header.chunking = chunking_of(source);
    return header;
}

Contents contents_of(hid_t file, const std::string& path, const ReadOptions& options, bool julia,
                     Failures known) {
    Contents contents;
    const auto visit = [&](const Handle& object, const std::string& name) {
        Handle own(H5Oopen(object.id(), ".", H5P_DEFAULT));
        auto found = describe(std::move(own), path, name, options, julia);
        if (auto* source = std::get_if<Source>(&found)) {
            contents.matrices.push_back({header_of(*source, path), source->element.name});
            return false;
        }
        auto& none = std::get<NoMatrix>(found);
        if (!none.may_hold_some) contents.others.push_back({{path, name}, std::move(none.why)});
        return none.may_hold_some;
    };
    walk(file, path, visit, known);
    const auto named = [](const Listed& matrix) {
        return surroundings_of(matrix.header.source.dataset).empty();
    };
    std::stable_partition(contents.matrices.begin(), contents.matrices.end(), named);
    contents.failures = std::move(known);
    return contents;
}

std::string to_text(const Failures& failures) {
    std::string text;
    for (const auto& [name, error] : failures) {
        text += name + '\0' + std::to_string(static_cast<int>(error.code())) + '\0';
        text += error.what();
        text += '\0';
    }
    return text;
}

Failures failures_in(const std::string& text) {
    Failures failures;
    std::size_t at = 0;
    const auto next = [&] {
        std::string part = text.c_str() + at;
        at += part.size() + 1;
        return part;
    };
    while (at < text.size()) {
        std::string name = next();
        const auto code = static_cast<ErrorCode>(std::stoi(next()));
        failures.emplace(std::move(name), Error(code, next()));
    }
    return failures;
}

namespace {

std::string listed(const std::vector<std::string>& lines) {
    std::string text;
    for (std::size_t i = 0; i < lines.size() && i < kMostListed; ++i)
        text += (i == 0 ? " " : "; ") + lines[i];
    if (lines.size() > kMostListed) text += "; and " + std::to_string(lines.size() - kMostListed) + " more";
    return text;
}

std::string listed(const std::vector<Listed>& matrices) {
    std::vector<std::string> lines;
    lines.reserve(matrices.size());
    for (const auto& [header, element] : matrices) {
        const std::string readable = header.most_entries
                                         ? element + ", " + header.storage
                                         : element + std::string(surroundings_of(header.source.dataset));
        lines.push_back(header.source.dataset + " " + to_string(header.shape) + " " +
                        (header.unread.empty() ? readable : header.storage));
    }
    return listed(lines);
}

std::string listed(const std::vector<OtherContent>& others) {
    std::vector<std::string> lines;
    lines.reserve(others.size());
    for (const OtherContent& other : others) lines.push_back(other.source.dataset + " " + other.what);
    return listed(lines);
}

/// The matrix that `object`, which was found at `dataset`, has to be.
Source matrix_in(Handle object, const std::string& path, const std::string& dataset,
                 const ReadOptions& options, bool julia, std::optional<std::vector<SliceIndex>> slice = {}) {
    auto found = describe(std::move(object), path, dataset, options, julia, std::move(slice));
    if (auto* source = std::get_if<Source>(&found)) return std::move(*source);
    throw Error(ErrorCode::input, path + ":" + dataset + ": " + std::get<NoMatrix>(found).why);
}

/// The only matrix of a file in which none was named.
Source only_matrix(hid_t file, const std::string& path, const ReadOptions& options, bool julia) {
    const Contents contents = contents_of(file, path, options, julia);
    if (!contents.failures.empty()) {  // which may be the one that is meant
        const Error& first = contents.failures.begin()->second;
        if (contents.matrices.empty()) throw first;
        throw Error(first.code(), first.what() +
                                      std::string("; a matrix that can be opened is named as "
                                                  "FILE:/DATASET:") +
                                      listed(contents.matrices));
    }
    if (contents.matrices.size() == 1) {
        const std::string& dataset = contents.matrices.front().header.source.dataset;
        return matrix_in(resolve(file, dataset, path + ":" + dataset, options), path, dataset, options,
                         julia);
    }
    if (contents.matrices.empty()) {
        throw Error(ErrorCode::input, path + ": holds no matrix" + (contents.others.empty() ? "" : ":") +
                                          listed(contents.others));
    }
    throw Error(ErrorCode::input, path + ": holds " + std::to_string(contents.matrices.size()) +
                                      " matrices, name one as FILE:/DATASET:" + listed(contents.matrices));
}

/// Whether the file has something of that name, wherever the link leads.
bool has_name(hid_t file, const Reference& reference, const ReadOptions& options) {
    const auto name = reference.dataset.rfind('/') + 1;
    const std::string what = to_string(reference);
    const Handle holder = resolve(file, "/" + reference.dataset.substr(0, name), what, options);
    return H5Iget_type(holder.id()) == H5I_GROUP &&
           has_member(holder.id(), reference.dataset.c_str() + name, what);
}

/// The slice that a name means; nothing where the file has something of that name.
std::optional<SliceName> slice_named(hid_t file, const Reference& reference, const ReadOptions& options) {
    auto slice = split_slice(reference.dataset);
    if (slice && has_name(file, reference, options)) slice.reset();
    return slice;
}

}  // namespace

Source named_matrix(hid_t file, const Reference& reference, const ReadOptions& options, bool julia) {
    std::optional<SliceName> slice;
    Handle object = [&] {
        try {
            slice = slice_named(file, reference, options);
            return resolve(file, slice ? slice->dataset : reference.dataset, to_string(reference), options);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::input) throw;
            const Contents contents = contents_of(file, reference.path, options, julia);
            if (!contents.matrices.empty())
                throw Error(error.code(), error.what() + ("; the file holds" + listed(contents.matrices)));
            if (!contents.failures.empty()) throw;  // of which nothing is known
            throw Error(error.code(), error.what() + std::string("; the file holds no matrix"));
        }
    }();
    const bool by_julia = written_by_julia(path_of_file(object.id()));
    if (!slice) return matrix_in(std::move(object), reference.path, reference.dataset, options, by_julia);
    return matrix_in(std::move(object), reference.path, reference.dataset, options, by_julia,
                     require_slice_indices(slice->indices, to_string(reference)));
}

Source find_matrix(hid_t file, const Reference& reference, const ReadOptions& options) {
    const bool julia = written_by_julia(reference.path);
    Source source = reference.dataset.empty() ? only_matrix(file, reference.path, options, julia)
                                              : named_matrix(file, reference, options, julia);
    if (const std::string why = why_unread(source); !why.empty())
        throw Error(ErrorCode::input, source.name + ": " + why);
    return source;
}

}  // namespace gpumat::formats::hdf5
