#pragma once

#include <algorithm>
#include <cstdint>

namespace gpumat::transpose::gpu {

/// The order in which blocks take the tiles: bands of tile rows, and inside a band column by column.
///
/// A band of 1 is row order, a band of every tile row is column order. In between, the tiles in flight form a
/// compact part of the matrix, so that the rows they read and the rows they write are both long pieces: fewer
/// memory pages are open at once, and output sectors that two tiles share meet in L2.
struct BandOrder {
    unsigned tiles_x = 0;
    unsigned tiles_y = 0;
    unsigned band = 1;  ///< tile rows in a band

    [[nodiscard]] static BandOrder of(std::int64_t rows, std::int64_t cols, int tile_rows, int tile_cols,
                                      int band) {
        const auto tiles_y = static_cast<unsigned>((rows + tile_rows - 1) / tile_rows);
        return {.tiles_x = static_cast<unsigned>((cols + tile_cols - 1) / tile_cols),
                .tiles_y = tiles_y,
                .band = std::clamp(static_cast<unsigned>(band), 1U, std::max(tiles_y, 1U))};
    }

    [[nodiscard]] __host__ __device__ unsigned tiles() const { return tiles_x * tiles_y; }

#ifdef __CUDACC__
    /// Tile column (x) and tile row (y) of the tile that comes at place `index`.
    [[nodiscard]] __device__ uint2 tile(unsigned index) const {
        const unsigned in_band = band * tiles_x;
        const unsigned first = index / in_band * band;
        const unsigned rest = index % in_band;
        const unsigned height = min(band, tiles_y - first);
        return make_uint2(rest / height, first + rest % height);
    }
#endif
};

}  // namespace gpumat::transpose::gpu
