#pragma once

#include <cstdint>

namespace gpumat {

/// Whether files of so many bytes are as large as matrices that are stored in earnest, compressed or sparse
/// as they may be. A small file that claims to hold a huge matrix is not worked on for days unless a memory
/// limit asks for it.
inline bool are_in_earnest(std::uint64_t file_bytes, std::uint64_t matrix_bytes) {
    constexpr std::uint64_t kMostInflation = 64;
    return file_bytes >= matrix_bytes / kMostInflation;
}

}  // namespace gpumat
