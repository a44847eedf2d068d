#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace gpumat::transpose::gpu {

/// A band of every tile row: column order.
inline constexpr int kColumns = std::numeric_limits<int>::max();

inline constexpr int kLine_bytes = 128;   ///< of L2
inline constexpr int kSector_bytes = 32;  ///< of a line, the least that device memory moves

template <class Whole, class By>
constexpr Whole divided_up(Whole value, By by) {
    return (value + by - 1) / by;
}

/// A matrix, the input of a transpose, in tiles.
struct Tiling {
    std::int64_t rows;
    std::int64_t cols;
    int element_bytes;
    int tile_rows;
    int tile_cols;

    [[nodiscard]] std::int64_t row_bytes() const { return cols * element_bytes; }
    [[nodiscard]] std::int64_t output_row_bytes() const { return rows * element_bytes; }
    [[nodiscard]] int tile_bytes() const { return tile_cols * element_bytes; }  ///< of a row
    [[nodiscard]] auto tiles_x() const { return static_cast<unsigned>(divided_up(cols, tile_cols)); }
    [[nodiscard]] auto tiles_y() const { return static_cast<unsigned>(divided_up(rows, tile_rows)); }
    [[nodiscard]] std::uint64_t tiles() const { return std::uint64_t{tiles_x()} * tiles_y(); }
    /// Tile columns and tile rows that do not reach beyond the matrix.
    [[nodiscard]] auto whole_x() const { return static_cast<unsigned>(cols / tile_cols); }
    [[nodiscard]] auto whole_y() const { return static_cast<unsigned>(rows / tile_rows); }
};

/// A block in the grid, or the size of the grid.
struct Place {
    unsigned x;
    unsigned y;
    unsigned z;
};

/// A tile: its column (x) and its row (y) of tiles.
struct TilePlace {
    unsigned x;
    unsigned y;
};

/// What a kernel may take for granted of the places in a grid, for the sake of its first instructions.
/// columns  each has a whole tile, x being its row and y its column
/// turns    each has a whole tile
/// any      nothing
enum class Places { columns, turns, any };

/// The order in which blocks take the tiles: bands of tile rows, and inside a band column by column.
///
/// A band of 1 is row order, a band of every tile row is column order. In between, the tiles in flight form a
/// compact part of the matrix, so that the rows they read and the rows they write are both long pieces: fewer
/// memory pages are open at once, and output sectors that two tiles share meet in L2.
///
/// An H200 does not spread all addresses evenly over its memory (measured):
/// - Where the rows of the input are a multiple of 128 KiB apart, those in one column differ in few address
///   bits. Two columns about 16 KiB apart then take turns: bit 14 of the address evens it out, as bits 13 and
///   16 would, but not 12, 15 and 17, nor 13 and 14 together.
/// - Where the rows of the output are a multiple of 512 KiB apart, and there are no bands, four tiles of a
///   column, a quarter of it apart, take turns.
///
/// A block's loads wait for its place, so that this takes a few steps and hardly ever a division. Blocks
/// start with x counting first, then y, then z: x counts the tile rows of a band, y the columns of a group, z
/// the groups of a band, and the bands. Some places may lie outside of the matrix.
struct TileOrder {
    unsigned tiles_x = 0;
    unsigned tiles_y = 0;
    unsigned whole_x = 0;  ///< tile columns that do not reach beyond the matrix
    unsigned whole_y = 0;  ///< tile rows that do not
    unsigned columns = 0;  ///< tile columns in a group, or in each half of it where they take turns
    unsigned groups = 1;   ///< in a band
    unsigned paired = 0;   ///< 1: columns of the two halves of a group take turns, else 0
    unsigned band = 0;     ///< tile rows in a band
    unsigned bands = 1;
    unsigned quarters = 0;  ///< 2: four tiles of a column take turns, else 0; a logarithm
    unsigned quarter = 0;   ///< tile rows from one of these to the next
    unsigned ahead_x = 0;   ///< from a place to the one whose tile is prefetched into L2
    unsigned ahead_y = 0;

    /// In bands of about `band` tile rows; the tile that comes `ahead` blocks later is prefetched, or
    /// sooner where a group has fewer.
    [[nodiscard]] static TileOrder of(const Tiling& tiling, int band, unsigned ahead = 0) {
        TileOrder order{.tiles_x = tiling.tiles_x(),
                        .tiles_y = tiling.tiles_y(),
                        .whole_x = tiling.whole_x(),
                        .whole_y = tiling.whole_y()};
        if (tiling.tiles() == 0) return order;
        order.group_columns(tiling);
        const unsigned bands = divided_up(order.tiles_y, static_cast<unsigned>(std::max(band, 1)));
        if (bands > 1) {
            order.band = divided_up(order.tiles_y, std::min(bands, kMost / order.groups));
            order.bands = divided_up(order.tiles_y, order.band);
        } else {
            order.take_column(tiling);
        }
        const unsigned width = order.band << order.paired;
        order.ahead_x = ahead % width;
        order.ahead_y = std::min(ahead / width, order.columns - 1);
        return order;
    }

    /// Rows with fewer bytes are short: a low band with all its columns is hardly more than what blocks have
    /// in flight.
    static constexpr std::int64_t kShortRow_bytes = 8 << 10;

    /// The tile rows in a band for tiles that share lines with those beside them. One band of all rows,
    /// column order, is best as long as a column of tiles takes no more than an eighth of L2, of elements of
    /// 1 and 2 bytes a sixth; then bands of a tenth, and of short rows low bands, in which no line leaves L2
    /// before it is used. All measured.
    [[nodiscard]] static int sharing_band(const Tiling& tiling, std::uint64_t l2_bytes) {
        constexpr std::int64_t kLowBand_bytes = 256 << 10;
        const auto l2 = std::max(static_cast<std::int64_t>(l2_bytes), 10 * kLowBand_bytes);
        const std::int64_t column = tiling.rows * tiling.tile_bytes();
        if (column <= l2 / (tiling.element_bytes < 4 ? 6 : 8)) return kColumns;
        const std::int64_t most = tiling.row_bytes() < kShortRow_bytes ? kLowBand_bytes : l2 / 10;
        const std::int64_t bands = divided_up(column, most);
        return static_cast<int>(divided_up(std::int64_t{tiling.tiles_y()}, bands));
    }

    [[nodiscard]] constexpr Place grid() const { return {band << paired, columns, groups * bands}; }

    /// What a kernel may take for granted of this order.
    [[nodiscard]] constexpr Places places() const {
        const bool full = whole_x == tiles_x && whole_y == tiles_y && bands == 1 && band == tiles_y &&
                          (groups << paired) * columns == tiles_x;
        if (!full) return Places::any;
        return groups == 1 && paired == 0 && quarters == 0 ? Places::columns : Places::turns;
    }

    /// The tile at a place in the grid, in an order whose places() are PLACES, or `any`.
    template <Places PLACES = Places::any>
    [[nodiscard]] constexpr TilePlace tile(const Place& place) const {
        if constexpr (PLACES == Places::columns) return {place.y, place.x};
        unsigned group = place.z;
        unsigned first = 0;
        if (PLACES == Places::any && bands > 1) {
            first = groups == 1 ? group : group / groups;
            group -= first * groups;
            first *= band;
        }
        const unsigned half = place.x & paired;
        const unsigned row = place.x >> paired;
        const unsigned turn = row & ((1U << quarters) - 1);
        return {((group << paired) + half) * columns + place.y, first + turn * quarter + (row >> quarters)};
    }

    /// The tile to prefetch into L2 at a place in the grid, likewise.
    template <Places PLACES = Places::any>
    [[nodiscard]] constexpr TilePlace tile_ahead(const Place& place) const {
        Place next = {place.x + ahead_x, place.y + ahead_y, place.z};
        if (next.x >= band << paired) {
            next.x -= band << paired;
            ++next.y;
        }
        if (PLACES != Places::columns && next.y >= columns) {
            next.y -= columns;
            ++next.z;
        }
        return tile<PLACES>(next);
    }

    /// Whether a tile lies in the matrix, at least in part.
    [[nodiscard]] constexpr bool holds(const TilePlace& tile) const {
        return tile.x < tiles_x && tile.y < tiles_y;
    }

    /// Whether all of a tile does.
    [[nodiscard]] constexpr bool holds_all(const TilePlace& tile) const {
        return tile.x < whole_x && tile.y < whole_y;
    }

  private:
    static constexpr unsigned kMost = 65535;  // of y and of z in a grid

    /// One group, or several whose columns take turns, or several because y is limited.
    void group_columns(const Tiling& tiling) {
        constexpr std::int64_t kUneven_bytes = 128 << 10;
        constexpr int kApart_bytes = 16 << 10;
        const auto apart = static_cast<unsigned>(std::max(kApart_bytes / tiling.tile_bytes(), 1));
        const unsigned pairs = std::max(tiles_x / (2 * apart), 1U);
        paired = tiling.row_bytes() % kUneven_bytes == 0 && pairs <= kMost ? 1 : 0;
        groups = paired == 1 ? pairs : divided_up(tiles_x, kMost);
        columns = divided_up(tiles_x, groups << paired);
    }

    void take_column(const Tiling& tiling) {
        constexpr std::int64_t kUneven_bytes = 512 << 10;
        quarters = tiling.output_row_bytes() % kUneven_bytes == 0 ? 2 : 0;
        quarter = divided_up(tiles_y, 1U << quarters);
        band = quarter << quarters;
    }
};

#ifdef __CUDACC__
[[nodiscard]] inline dim3 grid_of(const TileOrder& order) {
    const Place size = order.grid();
    return {size.x, size.y, size.z};
}

[[nodiscard]] __device__ __forceinline__ Place place_of_block() {
    return {blockIdx.x, blockIdx.y, blockIdx.z};
}
#endif

}  // namespace gpumat::transpose::gpu
