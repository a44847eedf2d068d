#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/file_versions.hpp"
#include "formats/hdf5/file/attributes.hpp"
#include "formats/hdf5/file/other_files.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/read/ahead.hpp"
#include "formats/hdf5/read/dense_reader.hpp"
#include "formats/hdf5/read/locate.hpp"
#include "formats/hdf5/read/source.hpp"
#include "formats/hdf5/read/sparse.hpp"
#include "formats/hdf5/read/sparse_layouts.hpp"
#include "formats/hdf5/read/storage.hpp"
#include "formats/hdf5/sandbox/probe.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
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

/// A matrix of a file, closed again: of a virtual dataset, HDF5 keeps much in memory while it is open.
struct Listed {
    Header header;
    std::string element;  ///< "f64", "12-bit integers"
};

/// Everything in a file that could be asked for: matrices, and what else it holds, with why it is none.
struct Contents {
    std::vector<Listed> matrices;
    std::vector<OtherContent> others;
    Failures failures;  ///< what may be matrices too, and could not be opened
};

/// `known`: what cannot be opened, and is not tried.
Contents contents_of(hid_t file, const std::string& path, const ReadOptions& options, bool julia,
                     Failures known = {}) {
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

/// Failures as text, for another process: of each name, code and message, with a zero byte behind it.
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

/// `julia`: of the file that is named. An external link may lead to one that another program wrote.
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

/// Visits the whole index of a chunked dataset.
void walk_chunks(hid_t dataset, const std::string& what) {
    const Handle creation = take(H5Dget_create_plist(dataset), ErrorCode::input, what);
    if (H5Pget_layout(creation.id()) == H5D_CHUNKED) written_chunks(dataset, what);
}

/// What is meant where the options name the dataset.
Reference meant(Reference reference, const ReadOptions& options) {
    if (!reference.dataset.empty() || options.dataset.empty()) return reference;
    reference.dataset = (options.dataset.starts_with('/') ? "" : "/") + options.dataset;
    return reference;
}

/// Finds the elements of a dense matrix, for a try.
void try_dataset(const Source& source, const ReadOptions& options) {
    const auto& dense = std::get<Dense>(source.where);
    walk_chunks(dense.dataset.id(), source.name);
    open_storage(source, dense, options);
}

/// Everything that opening the matrix, finding its elements and keeping its attributes will do, for a try.
void try_matrix(const Reference& reference, const ReadOptions& options) {
    const Handle file = open_for_reading(reference.path);
    const Source source = find_matrix(file.id(), meant(reference, options), options);
    if (const auto* dense = std::get_if<Dense>(&source.where)) {
        try_dataset(source, options);
        read_attributes(dense->dataset.id());
    } else if (const auto* sparse = std::get_if<Sparse>(&source.where)) {
        for (const auto* part : {&sparse->lines, &sparse->indices, &sparse->values})
            if (*part) try_dataset(**part, options);
        read_attributes(sparse->group.id());
    }
}

class Hdf5Reader final : public Reader, public AttributeSource {
  public:
    Hdf5Reader(const Reference& reference, const ReadOptions& options) : options_(options) {
        const OtherFiles others;
        open(reference, options);
        other_files_.assign(others.paths().begin(), others.paths().end());
        for (const std::string& piece : other_files_) versions_.add_piece(piece);
    }

    [[nodiscard]] const Header& header() const override { return header_; }

    [[nodiscard]] std::uint64_t open_bytes() const override {
        return dense_ ? dense_->open_bytes() : sparse_ ? sparse_->open_bytes() : 0;
    }

    [[nodiscard]] std::string open_words() const override { return dense_ ? dense_->open_words() : ""; }

    [[nodiscard]] std::uint64_t working_bytes() const override {
        return dense_ ? dense_->working_bytes() : sparse_ ? sparse_->working_bytes() : 0;
    }

    void set_spare(std::uint64_t bytes) override {
        if (dense_) dense_->set_spare(bytes);
        if (sparse_) sparse_->set_spare(bytes);
    }

    [[nodiscard]] std::vector<std::string> other_files() const override { return other_files_; }

    [[nodiscard]] std::optional<StoredPlace> place() const override {
        if (!dense_ || !other_files_.empty()) return {};
        auto found = dense_->place();
        if (found) found->path = source_.path;
        return found;
    }

    void require_unchanged() const override { versions_.require_unchanged(); }

    [[nodiscard]] hid_t attributed() const override {
        if (const auto* dense = std::get_if<Dense>(&source_.where)) return dense->dataset.id();
        const auto* sparse = std::get_if<Sparse>(&source_.where);
        return sparse == nullptr ? H5I_INVALID_HID : sparse->group.id();
    }

    [[nodiscard]] const std::string& name() const override { return source_.name; }

    [[nodiscard]] bool keeps(const std::string& attribute) const override {
        // What a sign stands for is true of no other type.
        const bool signs =
            attribute == "_Unsigned" && options_.type && *options_.type != source_.element.type;
        return !signs && !(sparse_ && is_of_sparse_layout(attribute)) &&
               (!source_.packing || !is_of_packing(attribute));
    }

    [[nodiscard]] bool holds_booleans() const override {
        if (sparse_) return header_.logical;
        const Element& element = source_.element;
        if (element.type != Type::u8 || options_.type || source_.packing || !dense_) return false;
        return (element.memory.valid() && H5Tget_class(element.memory.id()) == H5T_ENUM) || is_logical();
    }

    void read(const Block& block, const MutableMatrixView& out) override {
        if (!block.inside(header_.shape) || out.shape != block.shape() || out.type != header_.type) {
            throw Error(ErrorCode::input, source_.name + ": a block of " + to_string(block.shape()) +
                                              " was asked for that does not fit the matrix");
        }
        if (dense_) dense_->read(block, out);
        if (sparse_) sparse_->read(block, out);
    }

    void read_entries(const std::function<void(const Entries&)>& take) override {
        sparse_ ? give_entries(sparse_->arrays(), take) : Reader::read_entries(take);  // which refuses
    }

    [[nodiscard]] std::optional<Lines> lines() const override {
        return sparse_ ? sparse_->lines() : std::nullopt;
    }

    std::vector<std::int64_t> count_entries(std::int64_t step) override {
        return lines() ? count_in_lines(sparse_->arrays(), step) : Reader::count_entries(step);
    }

    Csr read_lines(const Block& block, std::int64_t& duplicates) override {
        return lines() ? lines_in(sparse_->arrays(), block, duplicates)
                       : Reader::read_lines(block, duplicates);
    }

    [[nodiscard]] std::uint64_t entries_bytes() const override {
        return sparse_ ? sparse_->entries_bytes() : Reader::entries_bytes();
    }

    Csr read_sparse(std::int64_t& duplicates) override {
        return sparse_ ? sparse_->read_sparse(duplicates) : Reader::read_sparse(duplicates);  // which refuses
    }

  private:
    void open(const Reference& reference, const ReadOptions& options) {
        const Session session;
        if (!was_checked(reference, options)) {
            try_in_child(reference.path, reference.path, ErrorCode::input,
                         [&] { try_matrix(reference, options); });
        }
        open_file(reference.path);
        source_ = find_matrix(file_.id(), meant(reference, options), options);
        header_ = header_of(source_, reference.path);
        if (!source_.element.exact && !options.type) {
            throw Error(ErrorCode::input, source_.name + ": its " + source_.element.name +
                                              " numbers fit no type exactly; ask for one to round to "
                                              "(--type " +
                                              std::string(name_of(source_.element.type)) + ")");
        }
        header_.type = options.type.value_or(source_.type());
        if (std::holds_alternative<Dense>(source_.where)) dense_.emplace(source_, options, header_.type);
        if (!std::holds_alternative<Sparse>(source_.where)) return;
        sparse_.emplace(source_, options, header_.type);
        header_.logical = header_.sparse_layout == SparseLayout::matlab && !options.type && is_logical();
        if (options.layout != Layout::by_content || options.as_column || options.unpack)
            tell(options.tell, Severity::warning,
                 source_.name +
                     ": is sparse, and read as its group says: --layout, --as-column and --unpack are of "
                     "dense datasets");
    }

    [[nodiscard]] bool is_logical() const {
        return text_attribute(attributed(), "MATLAB_class", source_.name) == "logical";
    }

    /// Opens the file, and keeps what it was like before.
    void open_file(const std::string& path) {
        struct stat before = {};
        if (stat(path.c_str(), &before) != 0)
            throw Error(ErrorCode::input, path + ": " + std::strerror(errno));
        file_ = open_for_reading(path);
        void* descriptor = nullptr;
        require(H5Fget_vfd_handle(file_.id(), H5P_DEFAULT, &descriptor), ErrorCode::input, path);
        if (!is_growing(file_.id())) versions_.add(*static_cast<const int*>(descriptor), path, before);
    }

    ReadOptions options_;
    Handle file_;
    FileVersions versions_;
    Source source_;
    Header header_;
    std::optional<DenseReader> dense_;  // at most one of them: neither for a matrix without elements
    std::optional<SparseReader> sparse_;
    std::vector<std::string> other_files_;
};

}  // namespace

bool recognises(std::string_view head, const std::string& path) {
    if (head.starts_with(kSignature)) return true;
    for (std::size_t offset = 512; offset + kSignature.size() <= head.size(); offset *= 2) {
        if (head.substr(offset).starts_with(kSignature)) return true;
    }
    std::ifstream file(path, std::ios::binary);
    std::string found(kSignature.size(), '\0');
    for (std::streamoff offset = 4096; file.seekg(offset) && offset > 0; offset *= 2) {
        if (!file.read(found.data(), static_cast<std::streamsize>(found.size()))) return false;
        if (found == kSignature) return true;
    }
    return false;
}

Listing list(const Reference& asked, const ReadOptions& options) {
    const Session session;
    const Reference reference = meant(asked, options);
    const std::string& path = reference.path;
    const auto contents = [&](Failures known) {
        const Handle file = open_for_reading(path);
        const bool julia = written_by_julia(path);
        if (reference.dataset.empty()) return contents_of(file.id(), path, options, julia, std::move(known));
        const Source source = named_matrix(file.id(), reference, options, julia);
        return Contents{{{header_of(source, path), source.element.name}}, {}, {}};
    };
    // What failed in the child, in its bounds, is not tried here without them.
    const std::string failed =
        ask_child(path, path, ErrorCode::input, [&] { return to_text(contents({}).failures); });
    Contents found = contents(failures_in(failed));
    Listing listing;
    for (Listed& matrix : found.matrices) listing.matrices.push_back(std::move(matrix.header));
    listing.others = std::move(found.others);
    for (const auto& [name, error] : found.failures) listing.failures.push_back(error);
    return listing;
}

void check_ahead(std::span<const AheadCheck> checks) {
    check_in_one_child(checks, [](const AheadCheck& check) { try_matrix(check.reference, check.options); });
}

std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options) {
    return std::make_unique<Hdf5Reader>(reference, options);
}

}  // namespace gpumat::formats::hdf5
