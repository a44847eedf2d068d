#include <zlib.h>

#include "core/hash/crc32.hpp"

namespace gpumat {

std::uint32_t crc32_of(const std::byte* data, std::size_t bytes, std::uint32_t crc) {
    return static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(data), bytes));
}

}  // namespace gpumat
