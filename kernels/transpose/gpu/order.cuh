#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumat::transpose::gpu {

/// A band of every tile row: column order.
inline constexpr int kColumns = 1 << 20;

inline constexpr int kLine_bytes = 128;   ///< of L2
inline constexpr int kSector_bytes = 32;  ///< of a line, the least that device memory moves

/// The order in which blocks take the tiles: bands of tile rows, and inside a band column by column.
///
/// A band of 1 is row order, a band of every tile row is column order. In between, the tiles in flight form a
/// compact part of the matrix, so that the rows they read and the rows they write are both long pieces: fewer
/// memory pages are open at once, and output sectors that two tiles share meet in L2.
///
/// Where the rows of the input are a multiple of 128 KiB apart, those in one column differ in few address
/// bits, and an H200 does not spread them evenly over its memory. Two columns about 16 KiB apart then take
/// turns: bit 14 of the address evens it out, as bits 13 and 16 would, but not 12, 15 and 17, nor 13 and 14
/// together (measured).
///
/// Where rows are not whole lines, a tile shares lines with the tile beside it, and device memory moves them
/// once only if L2 still has them when that one's turn comes: sharing_band.
struct BandOrder {
    unsigned tiles_x = 0;
    unsigned tiles_y = 0;
    unsigned band = 1;   ///< tile rows in a band
    unsigned apart = 0;  ///< columns of tiles between two that take turns, or 0

    /// Of a matrix of `rows` rows of `row_bytes`, in tiles of `tile_rows` rows of `tile_bytes`.
    [[nodiscard]] static BandOrder of(std::int64_t rows, std::int64_t row_bytes, int tile_rows,
                                      int tile_bytes, int band) {
        constexpr std::int64_t kUneven_bytes = 128 << 10;
        constexpr int kApart_bytes = 16 << 10;
        const auto tiles_y = static_cast<unsigned>((rows + tile_rows - 1) / tile_rows);
        const bool uneven = row_bytes % kUneven_bytes == 0;
        return {.tiles_x = static_cast<unsigned>((row_bytes + tile_bytes - 1) / tile_bytes),
                .tiles_y = tiles_y,
                .band = std::clamp(static_cast<unsigned>(band), 1U, std::max(tiles_y, 1U)),
                .apart = uneven ? static_cast<unsigned>(kApart_bytes / tile_bytes) : 0};
    }

    /// The tile rows in a band for tiles that share lines with those beside them, of a matrix as above. One
    /// band of all rows, column order, is best as long as a column of tiles takes no more than a sixth of L2;
    /// then bands of a tenth. Where the rows of the matrix are short, a low band with all its columns is
    /// hardly more than what blocks have in flight, and no line leaves L2 before it is used. All measured.
    [[nodiscard]] static int sharing_band(std::int64_t rows, std::int64_t row_bytes, int tile_rows,
                                          int tile_bytes, std::uint64_t l2_bytes) {
        constexpr std::int64_t kShortRow_bytes = 8 << 10;
        constexpr std::int64_t kLowBand_bytes = 256 << 10;
        const auto l2 = std::max(static_cast<std::int64_t>(l2_bytes), 10 * kLowBand_bytes);
        const std::int64_t column = rows * tile_bytes;
        if (column <= l2 / 6) return kColumns;
        const std::int64_t most = row_bytes < kShortRow_bytes ? kLowBand_bytes : l2 / 10;
        const std::int64_t bands = (column + most - 1) / most;
        const std::int64_t tiles_y = (rows + tile_rows - 1) / tile_rows;
        return static_cast<int>((tiles_y + bands - 1) / bands);
    }

    [[nodiscard]] __host__ __device__ unsigned tiles() const { return tiles_x * tiles_y; }

#ifdef __CUDACC__
    /// Tile column (x) and tile row (y) of the tile that comes at place `index`.
    [[nodiscard]] __device__ uint2 tile(unsigned index) const {
        const unsigned in_band = band * tiles_x;
        const unsigned first = index / in_band * band;
        const unsigned rest = index % in_band;
        const unsigned height = min(band, tiles_y - first);
        const unsigned x = rest / height;
        const unsigned paired = apart == 0 ? 0 : tiles_x / (2 * apart) * (2 * apart);
        if (x >= paired) return make_uint2(x, first + rest % height);
        const unsigned group = x / (2 * apart) * (2 * apart);
        const unsigned in_group = rest - group * height;
        const unsigned in_pair = in_group % (2 * height);
        return make_uint2(group + in_group / (2 * height) + in_pair % 2 * apart, first + in_pair / 2);
    }
#endif
};

}  // namespace gpumat::transpose::gpu
