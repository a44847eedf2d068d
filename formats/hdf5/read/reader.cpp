#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "formats/file_versions.hpp"
#include "formats/hdf5/file/attributes.hpp"
#include "formats/hdf5/file/other_files.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/read/ahead.hpp"
#include "formats/hdf5/read/contents.hpp"
#include "formats/hdf5/read/dense_reader.hpp"
#include "formats/hdf5/read/source.hpp"
#include "formats/hdf5/read/sparse.hpp"
#include "formats/hdf5/read/sparse_layouts.hpp"
#include "formats/hdf5/read/storage.hpp"
#include "formats/hdf5/sandbox/probe.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

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
