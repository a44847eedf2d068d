#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text/printable.hpp"
#include "formats/kept_stream.hpp"
#include "formats/npy/npy.hpp"
#include "formats/npz/npz.hpp"
#include "formats/npz/sparse.hpp"

namespace gpumat::formats::npz {
namespace {

Reference reference_of(const Archive& archive, const Member& member) {
    return {archive.path(), "/" + member.name};
}

Header header_of(const Archive& archive, const Member& member) {
    Header header = npy::describe(member.header, reference_of(archive, member));
    header.format = "npz";
    header.file_bytes = archive.bytes();
    return header;
}

/// What the archive holds in dense arrays, or the one that is named.
Listing list_arrays(const Archive& archive, const std::string& dataset, const ReadOptions& options) {
    Listing listing;
    for (const Member& member : archive.members()) {
        if (!dataset.empty() && dataset != "/" + member.name) continue;
        const std::string why = npy::why_no_matrix(member.header, options);
        if (!why.empty()) {
            listing.others.push_back({reference_of(archive, member), why});
            continue;
        }
        npy::require_size(member.header, member.bytes - member.header.offset, archive.name_of(member));
        listing.matrices.push_back(header_of(archive, member));
    }
    if (listing.matrices.empty() && listing.others.empty() && !dataset.empty())
        throw Error(ErrorCode::input,
                    archive.path() + ": holds no array '" + printable(dataset.substr(1)) + "'");
    return listing;
}

std::unique_ptr<Reader> open_array(const Archive& archive, const std::string& dataset,
                                   const ReadOptions& options) {
    const Listing listing = list_arrays(archive, dataset, options);
    if (listing.matrices.empty() && listing.others.size() == 1)
        throw Error(ErrorCode::input,
                    to_string(listing.others.front().source) + ": " + listing.others.front().what);
    if (listing.matrices.size() != 1) {
        std::string names;
        for (const Header& header : listing.matrices)
            names += (names.empty() ? ": " : "; ") + printable(header.source.dataset) + " " +
                     to_string(header.shape);
        throw Error(ErrorCode::input,
                    archive.path() + ": holds " +
                        (listing.matrices.empty() ? "no matrix"
                                                  : std::to_string(listing.matrices.size()) +
                                                        " matrices, name one as FILE:/NAME") +
                        names);
    }
    Header header = listing.matrices.front();
    const Member& member = *archive.find(header.source.dataset.substr(1));
    auto kept = std::make_shared<const KeptStream>(archive.name_of(member),
                                                   archive.unpack(member, options.memory_limit));
    archive.require_unchanged();
    auto reader = kept->named([&] { return npy::open({kept->path, ""}, options); });
    header.type = reader->header().type;
    return std::make_unique<KeptReader>(std::move(reader), std::move(kept), std::move(header));
}

/// A member may be called so that HDF5 would read the name in another way: "/x", "a/./b".
std::string wanted(const Archive& archive, const Reference& reference, const ReadOptions& options) {
    const std::string& name = reference.dataset.empty() ? options.dataset : reference.dataset;
    if (name.starts_with('/') && archive.find(name.substr(1)) != nullptr) return name;
    return plain_dataset(name);
}

/// The last characters of the name of the first member, which may be longer than the head of the file.
std::string end_of_name(std::string_view head, std::size_t end, std::size_t length, const std::string& path) {
    std::string text(std::min(length, kExtension.size()), '\0');
    if (end <= head.size()) return std::string(head.substr(end - text.size(), text.size()));
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
    const bool is_read =
        file.valid() && pread(file.number(), text.data(), text.size(),
                              static_cast<off_t>(end - text.size())) == static_cast<ssize_t>(text.size());
    return is_read ? text : std::string();
}

}  // namespace

bool recognises(std::string_view head, const std::string& path) {
    constexpr std::size_t kLength = 26;  // of the first member's name, which comes at kName
    constexpr std::size_t kName = 30;
    if (!head.starts_with("PK\x03\x04") || head.size() < kName) return false;
    const auto byte = [&](std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(head[at]));
    };
    const std::size_t length = byte(kLength) | byte(kLength + 1) << 8;
    return end_of_name(head, kName + length, length, path) == kExtension;
}

Listing list(const Reference& reference, const ReadOptions& options) {
    const Archive archive(reference.path);
    const std::string dataset = wanted(archive, reference, options);
    if (!dataset.empty() || !is_sparse(archive)) return list_arrays(archive, dataset, options);
    Listing listing;
    listing.matrices.push_back(describe_sparse(archive, options));
    return listing;
}

std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options) {
    const auto archive = std::make_shared<const Archive>(reference.path);
    const std::string dataset = wanted(*archive, reference, options);
    if (!dataset.empty() || !is_sparse(*archive)) return open_array(*archive, dataset, options);
    return open_sparse(archive, options);
}

}  // namespace gpumat::formats::npz
