#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumat {

/// The CRC-32 of zlib and of Python's zlib.crc32, continued over `bytes` more bytes; 0 of none. Through
/// libdeflate where the build found it, which is several times as fast as zlib, else through zlib.
std::uint32_t crc32_of(const std::byte* data, std::size_t bytes, std::uint32_t crc);

}  // namespace gpumat
