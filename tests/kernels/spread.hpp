#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

/// `rows` rows of `row_bytes` bytes each, so far apart as `pitch_bytes` says, with `gap` between them and
/// nothing after the last.
template <class Byte>
std::vector<Byte> spread(const Byte* dense, std::size_t rows, std::size_t row_bytes, std::size_t pitch_bytes,
                         Byte gap) {
    if (rows == 0 || row_bytes == 0) return {};
    std::vector<Byte> bytes((rows - 1) * pitch_bytes + row_bytes, gap);
    for (std::size_t row = 0; row < rows; ++row)
        std::memcpy(bytes.data() + row * pitch_bytes, dense + row * row_bytes, row_bytes);
    return bytes;
}
