#pragma once

#include <cstddef>

namespace gpumat::formats {

/// Reverses the bytes of each number of `number_bytes`; nothing for 1.
void swap_bytes(std::byte* data, std::size_t bytes, std::size_t number_bytes);

}  // namespace gpumat::formats
