#include "formats/hdf5/chunk_check.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "formats/hdf5/library_filters.hpp"
#include "formats/hdf5/storage.hpp"
#include "formats/hdf5/stored_chunk.hpp"

namespace gpumat::formats::hdf5 {
namespace {

using Place = std::array<hsize_t, H5S_MAX_RANK>;

constexpr std::size_t kMostChunkBytes = std::size_t{1} << 56;  ///< whose copies can be counted; HDF5: 2^32

}  // namespace

/// A chunked dataset, taken as one of two dimensions: the last one, and all others together.
struct ChunkCheck::Chunked {
    Source source;
    Dense dense;
    std::size_t rank = 0;
    Place extents{};
    Place edges{};
    std::size_t chunk_bytes = 0;
    bool own_filters = false;       ///< that the project undoes itself, or none
    bool filled = false;            ///< what was never written has a value
    std::optional<hsize_t> unseen;  ///< written chunks that are still to be checked, once counted

    /// What decoding chunks takes.
    struct Decoding {
        std::size_t most_stored_bytes = 0;  ///< that a chunk can take in the file
        std::unique_ptr<ChunkDecoder> decoder;
        StoredChunk stored;
    };
    std::unique_ptr<Decoding> decoding;  ///< null until a chunk has to be decoded

    Chunked(hid_t dataset, Handle creation, const std::string& what);
    [[nodiscard]] bool partial(const Place& place) const;
    [[nodiscard]] std::uint64_t number_of(const Place& place) const;
    bool check(const Place& place);
    void start();
};

ChunkCheck::Chunked::Chunked(hid_t dataset, Handle creation, const std::string& what) {
    const Handle space = take(H5Dget_space(dataset), ErrorCode::input, what);
    const int dimensions = H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
    if (dimensions < 1 || H5Pget_chunk(creation.id(), dimensions, edges.data()) != dimensions)
        fail(ErrorCode::input, what);
    rank = static_cast<std::size_t>(dimensions);
    if (std::ranges::count(std::span(edges).first(rank), hsize_t{0}) > 0)
        throw Error(ErrorCode::input, what + ": its chunks hold nothing");
    const Handle type = take(H5Dget_type(dataset), ErrorCode::input, what);
    hsize_t elements = 1;
    hsize_t chunks = 1;
    bool too_large = false;
    bool too_many = false;
    for (std::size_t i = 0; i < rank; ++i) {
        too_large |= __builtin_mul_overflow(elements, edges[i], &elements);
        too_many |= __builtin_mul_overflow(chunks, extents[i] / edges[i] + 1, &chunks);
    }
    too_large |= __builtin_mul_overflow(elements, H5Tget_size(type.id()), &chunk_bytes);
    if (too_large || chunk_bytes > kMostChunkBytes)
        throw Error(ErrorCode::input, what + ": its chunks are larger than any file");
    if (too_many) throw Error(ErrorCode::input, what + ": it has more chunks than can be counted");
    source.name = what;
    source.element.memory = take(H5Tcopy(type.id()), ErrorCode::input, what);
    source.element.memory_bytes = H5Tget_size(type.id());
    const hsize_t last = rank == 1 ? 1 : edges[rank - 1];
    dense.chunk = {static_cast<std::int64_t>(elements / last), static_cast<std::int64_t>(last)};
    dense.rank = std::min(dimensions, 2);
    H5Iinc_ref(dataset);
    dense.dataset = Handle(dataset);
    dense.filters = filters_of(creation.id());
    unsigned options = 0;
    require(H5Pget_chunk_opts(creation.id(), &options), ErrorCode::input, what);
    dense.plain_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    filled = is_filled(creation.id(), what);
    own_filters = std::ranges::all_of(dense.filters, Unfilter::known);
    dense.creation = std::move(creation);
}

void ChunkCheck::Chunked::start() {
    if (decoding) return;
    decoding = std::make_unique<Decoding>();
    if (own_filters) {
        auto own = std::make_unique<Unfilter>(dense.filters, chunk_bytes, 0);
        decoding->most_stored_bytes = own->most_stored_bytes();
        decoding->decoder = std::move(own);
    } else {
        decoding->most_stored_bytes = LibraryUnfilter::most_stored_bytes(chunk_bytes);
        decoding->decoder = std::make_unique<LibraryUnfilter>(source, dense);
    }
}

bool ChunkCheck::Chunked::partial(const Place& place) const {
    for (std::size_t i = 0; i < rank; ++i) {
        if (place[i] + edges[i] > extents[i]) return true;
    }
    return false;
}

std::uint64_t ChunkCheck::Chunked::number_of(const Place& place) const {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < rank; ++i)
        number = number * (extents[i] / edges[i] + 1) + place[i] / edges[i];
    return number;
}

/// Decodes the chunk at `place`. False where it was not written.
bool ChunkCheck::Chunked::check(const Place& place) {
    const auto name = [&] {
        std::string text = source.name + ": the chunk at";
        for (std::size_t i = 0; i < rank; ++i) text += (i == 0 ? " " : ", ") + std::to_string(place[i]);
        return text;
    };
    start();
    StoredChunk& stored = decoding->stored;
    if (!stored.read(dense.dataset.id(), place.data(), decoding->most_stored_bytes, name)) {
        if (filled) return false;
        throw Error(ErrorCode::input, name() + " was never written, and the dataset defines no fill value");
    }
    const bool plain = dense.plain_edges && partial(place);
    bool shuffled = false;
    decoding->decoder->apply(stored.bytes(), plain ? ~std::uint32_t{0} : stored.mask(), shuffled, name());
    return true;
}

ChunkCheck::ChunkCheck(hid_t dataset, const std::string& what) {
    Handle creation = take(H5Dget_create_plist(dataset), ErrorCode::input, what);
    if (H5Pget_layout(creation.id()) == H5D_CHUNKED)
        chunked_ = std::make_unique<Chunked>(dataset, std::move(creation), what);
}

ChunkCheck::~ChunkCheck() = default;

bool ChunkCheck::needs_library() const {
    return chunked_ && !chunked_->own_filters;
}

std::uint64_t ChunkCheck::memory_bytes() const {
    // Ours: as stored, and before and after a filter; H5Dread's are fewer, and later.
    constexpr std::uint64_t kOwnCopies = 3;
    if (!chunked_) return 0;
    if (chunked_->own_filters) return kOwnCopies * chunked_->chunk_bytes;
    return LibraryUnfilter::memory_bytes(chunked_->chunk_bytes, chunked_->chunk_bytes);
}

std::uint64_t ChunkCheck::chunk_bytes() const {
    return chunked_ ? chunked_->chunk_bytes : 0;
}

void ChunkCheck::release() {
    if (chunked_) chunked_->decoding.reset();
}

void ChunkCheck::check(hid_t selection) {
    if (!chunked_ || H5Sget_select_npoints(selection) <= 0) return;
    Chunked& chunked = *chunked_;
    if (!chunked.unseen) chunked.unseen = written_chunks(chunked.dense.dataset.id(), chunked.source.name);
    Place place{};
    Place last{};
    require(H5Sget_select_bounds(selection, place.data(), last.data()), ErrorCode::input,
            chunked.source.name);
    for (std::size_t i = 0; i < chunked.rank; ++i) place[i] -= place[i] % chunked.edges[i];
    const Place first = place;
    /// Moves `place` to the next chunk. False after the last one.
    const auto next = [&] {
        for (std::size_t i = chunked.rank; i-- > 0;) {
            place[i] += chunked.edges[i];
            if (place[i] <= last[i]) return true;
            place[i] = first[i];
        }
        return false;
    };
    do {
        // Of a large dataset few chunks may have been written.
        if (chunked.unseen == 0 && chunked.filled) return;
        Place end = place;
        for (std::size_t i = 0; i < chunked.rank; ++i) end[i] += chunked.edges[i] - 1;
        if (H5Sselect_intersect_block(selection, place.data(), end.data()) <= 0) continue;
        const std::uint64_t number = chunked.number_of(place);
        if (checked_.contains(number) || !chunked.check(place)) continue;
        checked_.insert(number);
        --*chunked.unseen;
    } while (next());
}

}  // namespace gpumat::formats::hdf5
