#include "formats/hdf5/filters.hpp"

#include <zlib.h>

#include <cstring>

namespace gpumat::formats::hdf5 {
namespace {

template <std::size_t kBytes>
void shuffle_elements(const std::byte* from, std::byte* to, std::size_t count) {
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
        for (std::size_t i = 0; i < count; ++i) to[byte * count + i] = from[i * kBytes + byte];
    }
}

}  // namespace

void shuffle(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t element_bytes) {
    const std::size_t count = bytes / element_bytes;
    switch (element_bytes) {
        case 2:
            shuffle_elements<2>(from, to, count);
            break;
        case 4:
            shuffle_elements<4>(from, to, count);
            break;
        case 8:
            shuffle_elements<8>(from, to, count);
            break;
        case 16:
            shuffle_elements<16>(from, to, count);
            break;
        default:
            for (std::size_t byte = 0; byte < element_bytes; ++byte) {
                for (std::size_t i = 0; i < count; ++i) to[byte * count + i] = from[i * element_bytes + byte];
            }
    }
    const std::size_t whole = count * element_bytes;
    std::memcpy(to + whole, from + whole, bytes - whole);
}

bool deflate(const std::byte* from, std::size_t bytes, int level, std::vector<std::byte>& to) {
    to.resize(compressBound(static_cast<uLong>(bytes)));
    auto size = static_cast<uLongf>(to.size());
    const int status = compress2(reinterpret_cast<Bytef*>(to.data()), &size,
                                 reinterpret_cast<const Bytef*>(from), static_cast<uLong>(bytes), level);
    if (status != Z_OK || size >= bytes) return false;
    to.resize(size);
    return true;
}

}  // namespace gpumat::formats::hdf5
