#include <libdeflate.h>

#include "core/hash/crc32.hpp"

namespace gpumat {

std::uint32_t crc32_of(const std::byte* data, std::size_t bytes, std::uint32_t crc) {
    return libdeflate_crc32(crc, data, bytes);
}

}  // namespace gpumat
