#pragma once

#include <cuda.h>

#include <cstdint>

namespace gpumat {

/// A row-major matrix of 32-bit words in device memory, cut into boxes of 32 words (128 bytes) by `box_rows`
/// rows, which lie in shared memory with the 128-byte swizzle: 16-byte piece p of row r at piece p ^ (r mod
/// 8).
///
/// `data` and `row_bytes` are multiples of 16; box_rows is at most 256. Throws Error{device} where the driver
/// lacks tensor maps or refuses this one.
CUtensorMap swizzled_map(const void* data, std::int64_t rows, std::int64_t row_bytes,
                         std::int64_t pitch_bytes, int box_rows);

/// `rows` rows of `row_words` 32-bit words in device memory, `pitch_bytes` apart, cut into boxes of
/// `box_words` by `box_rows`, which lie in shared memory row by row. What a box has outside of the matrix is
/// read as zeros.
///
/// `data` and `pitch_bytes` are multiples of 16, box_words is a multiple of 4; box_words and box_rows are at
/// most 256. Throws like swizzled_map.
CUtensorMap plain_map(const void* data, std::int64_t rows, std::int64_t row_words, std::int64_t pitch_bytes,
                      int box_words, int box_rows);

/// `rows` rows of `cols` elements of 1, 2 or 4 bytes in device memory, `pitch_bytes` apart, cut into boxes of
/// 128 bytes by `box_rows`, which lie in shared memory with the 128-byte swizzle. What a box has outside of
/// the matrix is read as zeros, and not written.
///
/// `data` and `pitch_bytes` are multiples of 16, box_rows is at most 256. Throws like swizzled_map.
CUtensorMap tile_map(const void* data, int element_bytes, std::int64_t rows, std::int64_t cols,
                     std::int64_t pitch_bytes, int box_rows);

}  // namespace gpumat
