#include "formats/hdf5/read/stored_chunk.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// The bytes that HDF5 says a chunk takes in the file, 0 where it was never written.
hsize_t stored_bytes(hid_t dataset, const hsize_t* place, const StoredChunk::Name& name) {
    hsize_t bytes = 0;
    const bool found = H5Dget_chunk_storage_size(dataset, place, &bytes) >= 0;
    if (found && bytes > 0) return bytes;
    // HDF5 1.10 calls a chunk that was never written a failure. The other way to ask takes time that grows
    // with the number of chunks.
    if (!found && reason() == "chunk storage is not allocated") return 0;
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    require(H5Dget_chunk_info_by_coord(dataset, place, &mask, &address, &bytes), ErrorCode::input,
            name() + " cannot be found");
    if (address == HADDR_UNDEF) return 0;
    // One that was written always takes some: its elements are not the fill value.
    throw Error(ErrorCode::input,
                name() + (found ? " is damaged: it takes no bytes in the file" : " cannot be found"));
}

}  // namespace

bool StoredChunk::read(hid_t dataset, const hsize_t* place, std::size_t most_bytes, const Name& name) {
    bytes_ = {};
    const hsize_t bytes = stored_bytes(dataset, place, name);
    if (bytes > most_bytes) {
        throw Error(ErrorCode::input, name() + " takes " + std::to_string(bytes) +
                                          " bytes, more than its filters make of any chunk");
    }
    if (bytes == 0) return false;
    bytes_ = memory_.take(bytes);
    // HDF5 says of a chunk without filters that it takes its plain size, and reads as many bytes as its index
    // says. More of them would pass the end of the memory, where the page that nothing may touch is. Fewer
    // leave the last byte as it was, whatever that was.
    for (const std::byte last : {std::byte{0xa5}, std::byte{0x5a}}) {
        bytes_.back() = last;
        const herr_t status = H5Dread_chunk(dataset, H5P_DEFAULT, place, &mask_, bytes_.data());
        if (status < 0) fail(ErrorCode::input, name() + " cannot be read");
        if (bytes_.back() != last) return true;
    }
    throw Error(ErrorCode::input,
                name() + " takes fewer bytes in the file than its " + std::to_string(bytes));
}

}  // namespace gpumat::formats::hdf5
