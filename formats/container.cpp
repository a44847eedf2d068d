#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/memory.hpp"
#include "core/spool.hpp"
#include "formats/file_versions.hpp"
#include "formats/kept_stream.hpp"
#include "formats/registry.hpp"

namespace gpumat::formats {

namespace {

Spool read_stream(const std::string& stream, const std::string& name, const ReadOptions& options) {
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
    if (!file.valid()) throw Error(ErrorCode::input, stream + ": cannot be opened: " + std::strerror(errno));
    return spool_from(file.number(), most, name);
}

/// A shape that is asked for is that of a matrix that states one.
void require_shape(const Header& header, const ReadOptions& options) {
    if (!options.shape || header.shape == *options.shape) return;
    throw Error(ErrorCode::input, to_string(header.source) + ": is " + to_string(header.shape) +
                                      ", and --shape says " + to_string(*options.shape));
}

}  // namespace

Container::Container(const Reference& reference, const ReadOptions& options)
    : reference_(reference), options_(options) {
    if (!is_kept_stream(reference, options)) {
        format_ = &recognise(reference);
        return;
    }
    format_ = &format_for_writing(reference.path, options.from);
    const std::string name = reference.path == "-" ? "standard input" : reference.path;
    stream_ = std::make_shared<const KeptStream>(name, read_stream(reference.path, name, options));
    stream_->named([&] {
        if (&recognise({stream_->path, ""}) != format_)
            throw Error(ErrorCode::input,
                        stream_->path + ": is no " + std::string(format_->name) + ", which --from names");
    });
}

Container::~Container() = default;

Listing Container::list() const {
    if (!stream_) {
        Listing listing = format_->list(reference_, options_);
        if (listing.matrices.size() == 1) require_shape(listing.matrices.front(), options_);
        return listing;
    }
    Listing listing = stream_->named([&] {
        return format_->list({stream_->path, reference_.dataset}, options_);
    });
    for (Header& header : listing.matrices) header.source.path = reference_.path;
    for (OtherContent& other : listing.others) other.source.path = reference_.path;
    for (Error& failure : listing.failures) failure = stream_->renamed(failure);
    if (listing.matrices.size() == 1) require_shape(listing.matrices.front(), options_);
    return listing;
}

std::unique_ptr<Reader> Container::open(const std::string& dataset) const {
    if (!stream_) {
        auto reader = format_->open({reference_.path, dataset}, options_);
        require_shape(reader->header(), options_);
        return reader;
    }
    auto reader = stream_->named([&] { return format_->open({stream_->path, dataset}, options_); });
    Header header = reader->header();
    header.source.path = reference_.path;
    require_shape(header, options_);
    return std::make_unique<KeptReader>(std::move(reader), stream_, std::move(header));
}

}  // namespace gpumat::formats
