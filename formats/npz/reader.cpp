#include <utility>

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

std::string wanted(const Reference& reference, const ReadOptions& options) {
    return plain_dataset(reference.dataset.empty() ? options.dataset : reference.dataset);
}

}  // namespace

bool recognises(std::string_view head, const std::string& /*path*/) {
    constexpr std::size_t kLength = 26;  // of the first member's name, which comes at kName
    constexpr std::size_t kName = 30;
    if (!head.starts_with("PK\x03\x04") || head.size() < kName) return false;
    const auto byte = [&](std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(head[at]));
    };
    return head.substr(kName, byte(kLength) | byte(kLength + 1) << 8).ends_with(".npy");
}

Listing list(const Reference& reference, const ReadOptions& options) {
    const Archive archive(reference.path);
    const std::string dataset = wanted(reference, options);
    if (!dataset.empty() || !is_sparse(archive)) return list_arrays(archive, dataset, options);
    Listing listing;
    listing.matrices.push_back(describe_sparse(archive, options));
    return listing;
}

std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options) {
    const auto archive = std::make_shared<const Archive>(reference.path);
    const std::string dataset = wanted(reference, options);
    if (!dataset.empty() || !is_sparse(*archive)) return open_array(*archive, dataset, options);
    return open_sparse(archive, options);
}

}  // namespace gpumat::formats::npz
