#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/memory.hpp"
#include "core/spool.hpp"
#include "formats/file_versions.hpp"
#include "formats/registry.hpp"

namespace gpumat::formats {

/// A stream that is kept as a file without a name.
struct KeptStream {
    std::string name;  ///< as messages call it
    std::string path;  ///< by which this process opens the file
    Spool spool;

    KeptStream(const std::string& stream, const ReadOptions& options)
        : name(stream == "-" ? "standard input" : stream), spool(read_stream(stream, name, options)) {
        path = path_of_descriptor(spool.file.number());
    }

    /// Calls `step` and names the stream, not the file, in what it throws.
    template <class Step>
    decltype(auto) named(const Step& step) const {
        try {
            return step();
        } catch (const Error& error) {
            throw renamed(error);
        }
    }

    [[nodiscard]] Error renamed(const Error& error) const {
        std::string text = error.what();
        for (std::size_t at = 0; (at = text.find(path, at)) != std::string::npos; at += name.size())
            text.replace(at, path.size(), name);
        return {error.code(), text};
    }

    static Spool read_stream(const std::string& stream, const std::string& name, const ReadOptions& options) {
        constexpr std::uint64_t kShare = 4;  // the rest is for the matrices
        const std::uint64_t most =
            (options.memory_limit ? *options.memory_limit : available_memory_bytes()) / kShare;
        if (stream == "-") {
            FileVersions versions;  // it may be a file
            versions.add(STDIN_FILENO, name);
            Spool kept = spool_from(STDIN_FILENO, most, name);
            versions.require_unchanged();
            return kept;
        }
        const Descriptor file(::open(stream.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
        if (!file.valid())
            throw Error(ErrorCode::input, stream + ": cannot be opened: " + std::strerror(errno));
        return spool_from(file.number(), most, name);
    }
};

namespace {

/// Reads from a kept stream, which it calls by its own name.
class KeptReader final : public Reader {
  public:
    KeptReader(std::unique_ptr<Reader> reader, std::shared_ptr<const KeptStream> stream,
               const std::string& path)
        : reader_(std::move(reader)), stream_(std::move(stream)), header_(reader_->header()) {
        header_.source.path = path;
    }

    [[nodiscard]] const Header& header() const override { return header_; }
    void read(const Block& block, const MutableMatrixView& out) override {
        stream_->named([&] { reader_->read(block, out); });
    }
    [[nodiscard]] std::uint64_t open_bytes() const override {
        return reader_->open_bytes() + (stream_->spool.in_memory ? stream_->spool.bytes : 0);
    }
    [[nodiscard]] std::string open_words() const override { return reader_->open_words(); }
    [[nodiscard]] std::uint64_t working_bytes() const override { return reader_->working_bytes(); }
    void set_spare(std::uint64_t bytes) override { reader_->set_spare(bytes); }
    void require_unchanged() const override { reader_->require_unchanged(); }
    [[nodiscard]] std::vector<std::string> other_files() const override { return reader_->other_files(); }
    void read_entries(const std::function<void(const Entries&)>& take) override {
        stream_->named([&] { reader_->read_entries(take); });
    }
    Csr read_sparse(std::int64_t& duplicates) override {
        Csr matrix;
        stream_->named([&] { matrix = reader_->read_sparse(duplicates); });
        return matrix;
    }
    [[nodiscard]] const Reader& origin() const override { return reader_->origin(); }

  private:
    std::unique_ptr<Reader> reader_;
    std::shared_ptr<const KeptStream> stream_;
    Header header_;
};

}  // namespace

Container::Container(const Reference& reference, const ReadOptions& options)
    : reference_(reference), options_(options) {
    if (!is_kept_stream(reference, options)) {
        format_ = &recognise(reference);
        return;
    }
    format_ = &format_for_writing(reference.path, options.from);
    stream_ = std::make_shared<const KeptStream>(reference.path, options);
    stream_->named([&] {
        if (&recognise({stream_->path, ""}) != format_)
            throw Error(ErrorCode::input,
                        stream_->path + ": is no " + std::string(format_->name) + ", which --from names");
    });
}

Container::~Container() = default;

Listing Container::list() const {
    if (!stream_) return format_->list(reference_, options_);
    Listing listing = stream_->named([&] {
        return format_->list({stream_->path, reference_.dataset}, options_);
    });
    for (Header& header : listing.matrices) header.source.path = reference_.path;
    for (OtherContent& other : listing.others) other.source.path = reference_.path;
    for (Error& failure : listing.failures) failure = stream_->renamed(failure);
    return listing;
}

std::unique_ptr<Reader> Container::open(const std::string& dataset) const {
    if (!stream_) return format_->open({reference_.path, dataset}, options_);
    auto reader = stream_->named([&] { return format_->open({stream_->path, dataset}, options_); });
    return std::make_unique<KeptReader>(std::move(reader), stream_, reference_.path);
}

}  // namespace gpumat::formats
