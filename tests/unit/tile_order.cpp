// The order in which blocks of the GPU transposes take the tiles: from every place of the grid to its tile,
// on the CPU.
#include "kernels/transpose/gpu/order.hpp"

#include <cstdint>
#include <set>
#include <vector>

#include "tests/catch.hpp"

using namespace gpumat::transpose::gpu;

namespace {

constexpr std::uint64_t kMostGrid =
    65535;  // y and z, in the CUDA C++ Programming Guide, "Technical Specifications"

/// The places of the grid in the order in which blocks start.
std::vector<Place> places_of(const TileOrder& order) {
    std::vector<Place> places;
    const Place size = order.grid();
    for (unsigned z = 0; z < size.z; ++z) {
        for (unsigned y = 0; y < size.y; ++y) {
            for (unsigned x = 0; x < size.x; ++x) places.push_back({x, y, z});
        }
    }
    return places;
}

/// Checks that blocks take each tile once, and know whether it is whole; returns the tiles in their order.
std::vector<TilePlace> tiles_in_order(const Tiling& tiling, const TileOrder& order) {
    const Place size = order.grid();
    CHECK(size.y <= kMostGrid);
    CHECK(size.z <= kMostGrid);
    std::vector<TilePlace> tiles;
    std::vector<int> taken(tiling.tiles());
    int wrongly_whole = 0;
    for (const Place& place : places_of(order)) {
        const TilePlace tile = order.tile(place);
        if (!order.holds(tile)) {
            wrongly_whole += order.holds_all(tile) ? 1 : 0;
            continue;
        }
        tiles.push_back(tile);
        ++taken.at(std::uint64_t{tile.y} * tiling.tiles_x() + tile.x);
        const bool whole = (std::int64_t{tile.x} + 1) * tiling.tile_cols <= tiling.cols &&
                           (std::int64_t{tile.y} + 1) * tiling.tile_rows <= tiling.rows;
        wrongly_whole += whole != order.holds_all(tile) ? 1 : 0;
    }
    CHECK(wrongly_whole == 0);
    CHECK(std::set<int>(taken.begin(), taken.end()) == std::set<int>{1});
    return tiles;
}

}  // namespace

TEST_CASE("blocks take every tile once, in every shape and band") {
    for (const std::int64_t rows : {1, 7, 64, 65, 1000, 4096}) {
        for (const std::int64_t cols : {1, 32, 33, 1000, 4099}) {
            for (const int band : {1, 3, 8, 32, kColumns}) {
                const Tiling tiling{rows, cols, 4, 64, 32};
                CAPTURE(rows, cols, band);
                tiles_in_order(tiling, TileOrder::of(tiling, band));
            }
        }
    }
}

TEST_CASE("column order goes down the columns, bands of one row along the rows") {
    const Tiling tiling{129, 97, 8, 64, 32};
    const auto columns = tiles_in_order(tiling, TileOrder::of(tiling, kColumns));
    REQUIRE(columns.size() == 12);
    CHECK((columns[1].x == 0 && columns[1].y == 1));
    CHECK((columns[3].x == 1 && columns[3].y == 0));
    const auto rows = tiles_in_order(tiling, TileOrder::of(tiling, 1));
    CHECK((rows[1].x == 1 && rows[1].y == 0));
    CHECK((rows[4].x == 0 && rows[4].y == 1));
    const auto bands = tiles_in_order(tiling, TileOrder::of(tiling, 2));
    CHECK((bands[1].x == 0 && bands[1].y == 1));
    CHECK((bands[2].x == 1 && bands[2].y == 0));
    CHECK((bands[8].x == 0 && bands[8].y == 2));
}

TEST_CASE("columns 16 KiB apart take turns where input rows are a multiple of 128 KiB apart") {
    const Tiling tiling{300, 32768, 8, 32, 32};  // rows of 256 KiB, tiles of 256 bytes
    const auto tiles = tiles_in_order(tiling, TileOrder::of(tiling, kColumns));
    CHECK((tiles[0].x == 0 && tiles[1].x == 64 && tiles[2].x == 0 && tiles[3].x == 64));
    CHECK((tiles[0].y == 0 && tiles[1].y == 0 && tiles[2].y == 1 && tiles[3].y == 1));
    // Tiles that are no power of two wide: the columns are about as far apart, and few places are empty.
    for (const int tile_cols : {87, 177, 48}) {
        const Tiling odd{300, 32768, 4, 96, tile_cols};
        CAPTURE(tile_cols);
        const TileOrder order = TileOrder::of(odd, kColumns);
        const auto taken = tiles_in_order(odd, order);
        const std::int64_t apart_bytes = std::int64_t{taken[1].x} * odd.tile_bytes();
        CHECK(apart_bytes > 15 << 10);
        CHECK(apart_bytes < 18 << 10);
        CHECK(places_of(order).size() < taken.size() * 21 / 20);
    }
    // In bands too.
    const TileOrder banded = TileOrder::of({1000, 32768, 4, 96, 87}, 4);
    CHECK(banded.bands == 3);
    tiles_in_order({1000, 32768, 4, 96, 87}, banded);
}

TEST_CASE("quarters of a column take turns where output rows are a multiple of 512 KiB apart") {
    const Tiling tiling{65536, 40, 8, 32, 32};
    const auto tiles = tiles_in_order(tiling, TileOrder::of(tiling, kColumns));
    CHECK((tiles[0].y == 0 && tiles[1].y == 512 && tiles[2].y == 1024 && tiles[3].y == 1536));
    CHECK((tiles[4].y == 1 && tiles[4].x == 0));
    // As many tile rows as are no multiple of four, and both kinds of turns.
    tiles_in_order({32768, 8192, 16, 1000, 256}, TileOrder::of({32768, 8192, 16, 1000, 256}, kColumns));
}

TEST_CASE("a grid holds tiles beyond 65535 in either direction") {
    const Tiling wide{3, 32 * 200001 + 1, 1, 64, 32};
    tiles_in_order(wide, TileOrder::of(wide, kColumns));
    tiles_in_order(wide, TileOrder::of(wide, 1));
    const Tiling tall{64 * 200001 + 1, 3, 1, 64, 32};
    tiles_in_order(tall, TileOrder::of(tall, kColumns));
    tiles_in_order(tall, TileOrder::of(tall, 1));
}

TEST_CASE("grids of the largest matrices are within the limits") {
    constexpr std::uint64_t kMostGridX = (1ULL << 31) - 1;
    constexpr std::int64_t kMost_bytes = std::int64_t{1} << 37;
    constexpr std::int64_t kLeastColumns = 16;  // fewer have tiles of their own (thin.cuh)
    for (const int size : {1, 2, 4, 8, 16}) {
        for (std::int64_t rows = 1; rows * size * kLeastColumns <= kMost_bytes; rows *= 2) {
            for (const int tile : {32, 87, 256}) {
                for (const int band : {1, 1000, kColumns}) {
                    const Tiling tiling{rows, kMost_bytes / rows / size, size, tile, tile};
                    CAPTURE(size, rows, tile, band);
                    const Place grid = TileOrder::of(tiling, band).grid();
                    CHECK(grid.x <= kMostGridX);
                    CHECK(grid.y <= kMostGrid);
                    CHECK(grid.z <= kMostGrid);
                    CHECK(std::uint64_t{grid.x} * grid.y * grid.z >= tiling.tiles());
                }
            }
        }
    }
}

TEST_CASE("the tile of a later block is prefetched into L2") {
    constexpr unsigned kAhead = 176;
    for (const Tiling& tiling : {Tiling{8192, 8192, 4, 64, 64}, Tiling{700, 32768, 8, 32, 32},
                                 Tiling{65536, 96, 8, 32, 32}, Tiling{900, 30000, 4, 64, 64}}) {
        CAPTURE(tiling.rows, tiling.cols);
        const TileOrder order = TileOrder::of(tiling, kColumns, kAhead);
        const auto places = places_of(order);
        int wrong = 0;
        for (std::size_t k = 0; k + kAhead < places.size(); ++k) {
            const TilePlace asked = order.tile_ahead(places[k]);
            const TilePlace later = order.tile(places[k + kAhead]);
            wrong += asked.x != later.x || asked.y != later.y ? 1 : 0;
        }
        CHECK(wrong == 0);
        CHECK_FALSE(order.holds(order.tile_ahead(places.back())));
    }
    // Where a group of columns has fewer tiles: sooner, but none twice.
    const Tiling low{64, 524288, 4, 64, 64};
    const TileOrder order = TileOrder::of(low, kColumns, kAhead);
    std::set<unsigned> asked;
    std::size_t in_all = 0;
    for (const Place& place : places_of(order)) {
        const TilePlace tile = order.tile_ahead(place);
        if (!order.holds(tile)) continue;
        asked.insert(tile.x);
        ++in_all;
    }
    CHECK(asked.size() == in_all);
    CHECK(in_all + kAhead > low.tiles());
}

TEST_CASE("what kernels take for granted of the places is so") {
    struct Order {
        Tiling tiling;
        int band;
        Places places;
    };
    for (const auto& [tiling, band, places] :
         {Order{{640, 960, 4, 64, 32}, kColumns, Places::columns},
          Order{{641, 960, 4, 64, 32}, kColumns, Places::any},
          Order{{640, 961, 4, 64, 32}, kColumns, Places::any}, Order{{640, 960, 4, 64, 32}, 5, Places::any},
          Order{{320, 32768, 8, 32, 32}, kColumns, Places::turns},
          Order{{321, 32768, 8, 32, 32}, kColumns, Places::any},
          Order{{320, 32768, 4, 32, 87}, kColumns, Places::any},
          Order{{65536, 96, 8, 32, 32}, kColumns, Places::turns},
          Order{{65536, 16384, 8, 128, 32}, kColumns, Places::turns},
          Order{{65536, 96, 8, 96, 32}, kColumns, Places::any}}) {
        CAPTURE(tiling.rows, tiling.cols, band);
        const TileOrder order = TileOrder::of(tiling, band, 40);
        REQUIRE(order.places() == places);
        if (places == Places::any) continue;
        int wrong = 0;
        for (const Place& place : places_of(order)) {
            const TilePlace tile = order.tile(place);
            const TilePlace same = places == Places::columns ? order.tile<Places::columns>(place)
                                                             : order.tile<Places::turns>(place);
            const TilePlace ahead = order.tile_ahead(place);
            const TilePlace same_ahead = places == Places::columns ? order.tile_ahead<Places::columns>(place)
                                                                   : order.tile_ahead<Places::turns>(place);
            wrong += tile.x != same.x || tile.y != same.y || !order.holds_all(tile) ? 1 : 0;
            wrong += ahead.x != same_ahead.x || ahead.y != same_ahead.y ? 1 : 0;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("a matrix without tiles has an empty grid") {
    for (const Tiling& tiling : {Tiling{0, 5, 4, 64, 64}, Tiling{5, 0, 4, 64, 64}}) {
        const Place size = TileOrder::of(tiling, kColumns).grid();
        CHECK(std::uint64_t{size.x} * size.y * size.z == 0);
    }
}

TEST_CASE("tiles that share lines come in bands where L2 lacks room for a column of them") {
    constexpr std::uint64_t kL2_bytes = 60 << 20;
    constexpr std::int64_t kLong = 16 << 10;  // bytes of a row
    constexpr std::int64_t kShort = 4 << 10;
    // Tiles of 256 bytes by 64 rows: an eighth of L2 is 30720 rows, a sixth 40960, a tenth 24576.
    const auto band = [&](std::int64_t rows, std::int64_t row_bytes, int element_bytes) {
        return TileOrder::sharing_band(
            {rows, row_bytes / element_bytes, element_bytes, 64, 256 / element_bytes}, kL2_bytes);
    };
    CHECK(band(30720, kLong, 4) == kColumns);
    CHECK(band(30721, kLong, 4) == 241);  // of 481 tile rows, two bands of at most a tenth
    CHECK(band(30721, kLong, 2) == kColumns);
    CHECK(band(40960, kLong, 1) == kColumns);
    CHECK(band(40961, kLong, 1) == 321);  // of 641
    CHECK(band(98304, kLong, 8) == 384);  // of 1536, four bands
    CHECK(band(98305, kLong, 8) == 308);  // of 1537, five
    CHECK(band(30720, kShort, 4) == kColumns);
    CHECK(band(61440, kShort, 4) == 16);  // 256 KiB
    // A little L2 is taken for 2.5 MiB.
    CHECK(TileOrder::sharing_band({1280, 4096, 4, 64, 64}, 0) == kColumns);
    CHECK(TileOrder::sharing_band({1281, 4096, 4, 64, 64}, 0) == 11);  // of 21
}
