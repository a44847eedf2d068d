#include "formats/hdf5/chunk_check.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "formats/hdf5/guarded_buffer.hpp"
#include "formats/hdf5/library_filters.hpp"
#include "formats/hdf5/storage.hpp"

namespace gpumat::formats::hdf5 {
namespace {

using Place = std::array<hsize_t, H5S_MAX_RANK>;

/// A chunked dataset, taken as one of two dimensions: the last one, and all others together.
struct Chunked {
    Source source;
    Dense dense;
    std::size_t rank = 0;
    Place extents{};
    Place edges{};
    std::size_t chunk_bytes = 0;
};

Chunked describe(hid_t dataset, Handle creation, const std::string& what) {
    Chunked found;
    const Handle space = take(H5Dget_space(dataset), ErrorCode::input, what);
    const int rank = H5Sget_simple_extent_dims(space.id(), found.extents.data(), nullptr);
    if (rank < 1 || H5Pget_chunk(creation.id(), rank, found.edges.data()) != rank)
        fail(ErrorCode::input, what);
    found.rank = static_cast<std::size_t>(rank);
    const Handle type = take(H5Dget_type(dataset), ErrorCode::input, what);
    hsize_t elements = 1;
    bool too_large = false;
    for (std::size_t i = 0; i < found.rank; ++i)
        too_large |= __builtin_mul_overflow(elements, found.edges[i], &elements);
    too_large |= __builtin_mul_overflow(elements, H5Tget_size(type.id()), &found.chunk_bytes);
    if (too_large) throw Error(ErrorCode::input, what + ": its chunks are larger than any file");
    found.source.name = what;
    found.source.element.memory = take(H5Tcopy(type.id()), ErrorCode::input, what);
    found.source.element.memory_bytes = H5Tget_size(type.id());
    const hsize_t last = found.rank == 1 ? 1 : found.edges[found.rank - 1];
    found.dense.chunk = {static_cast<std::int64_t>(elements / last), static_cast<std::int64_t>(last)};
    found.dense.rank = std::min(rank, 2);
    H5Iinc_ref(dataset);
    found.dense.dataset = Handle(dataset);
    found.dense.filters = filters_of(creation.id());
    unsigned edges = 0;
    require(H5Pget_chunk_opts(creation.id(), &edges), ErrorCode::input, what);
    found.dense.plain_edges = (edges & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    found.dense.creation = std::move(creation);
    return found;
}

bool partial(const Chunked& chunked, const Place& place) {
    for (std::size_t i = 0; i < chunked.rank; ++i) {
        if (place[i] + chunked.edges[i] > chunked.extents[i]) return true;
    }
    return false;
}

/// Decodes the chunk at `place`. False where it was not written.
bool check_chunk(const Chunked& chunked, const Place& place, std::size_t most_bytes, ChunkDecoder& decoder,
                 GuardedBuffer& memory) {
    std::string name = chunked.source.name + ": the chunk at";
    for (std::size_t i = 0; i < chunked.rank; ++i) name += (i == 0 ? " " : ", ") + std::to_string(place[i]);
    hsize_t bytes = 0;
    if (H5Dget_chunk_storage_size(chunked.dense.dataset.id(), place.data(), &bytes) < 0) {
        if (reason() == "chunk storage is not allocated") return false;  // HDF5 1.10 calls that a failure
        fail(ErrorCode::input, name + " cannot be found");
    }
    if (bytes == 0) return false;
    if (bytes > most_bytes) {
        throw Error(ErrorCode::input, name + " takes " + std::to_string(bytes) +
                                          " bytes, more than its filters make of any chunk");
    }
    const auto stored = memory.take(bytes);
    std::uint32_t mask = 0;
    require(H5Dread_chunk(chunked.dense.dataset.id(), H5P_DEFAULT, place.data(), &mask, stored.data()),
            ErrorCode::input, name + " cannot be read");
    if (chunked.dense.plain_edges && partial(chunked, place)) mask = ~std::uint32_t{0};
    bool shuffled = false;
    decoder.apply(stored, mask, shuffled, name);
    return true;
}

/// Moves `place` to the next chunk. False after the last one.
bool next(const Chunked& chunked, Place& place) {
    for (std::size_t i = chunked.rank; i-- > 0;) {
        place[i] += chunked.edges[i];
        if (place[i] < chunked.extents[i]) return true;
        place[i] = 0;
    }
    return false;
}

}  // namespace

void check_chunks(hid_t dataset, const std::string& what) {
    Handle creation = take(H5Dget_create_plist(dataset), ErrorCode::input, what);
    if (H5Pget_layout(creation.id()) != H5D_CHUNKED || H5Dget_storage_size(dataset) == 0) return;
    const Chunked chunked = describe(dataset, std::move(creation), what);
    if (chunked.dense.filters.empty()) {
        require_whole_chunks(dataset, chunked.chunk_bytes, what);
        return;
    }
    std::unique_ptr<ChunkDecoder> decoder;
    std::size_t most_bytes = LibraryUnfilter::most_stored_bytes(chunked.chunk_bytes);
    if (std::ranges::all_of(chunked.dense.filters, Unfilter::known)) {
        auto own = std::make_unique<Unfilter>(chunked.dense.filters, chunked.chunk_bytes, 0);
        most_bytes = own->most_stored_bytes();
        decoder = std::move(own);
    } else {
        decoder = std::make_unique<LibraryUnfilter>(chunked.source, chunked.dense);
    }
    GuardedBuffer memory;
    Place place{};
    hsize_t left = written_chunks(dataset, what);  // of a large dataset that may be few
    do {
        if (check_chunk(chunked, place, most_bytes, *decoder, memory)) --left;
    } while (left > 0 && next(chunked, place));
}

}  // namespace gpumat::formats::hdf5
