#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gpumat::multiply::gpu {

/// A block tile of `pipelined` and how its threads share it. Extents are in elements.
struct Tile {
    int bm, bn, bk;  ///< tile of C, and the depth of one stage
    int tm, tn;      ///< tile of C of one thread
    int lanes_m;     ///< rows of the warp's grid of lanes: lanes_m × (32 / lanes_m)
    int stages;      ///< stages in shared memory
    int resident;    ///< blocks that a multiprocessor must hold at once
    int rate;        ///< measured: percent of the arithmetic peak when the device is full

    [[nodiscard]] constexpr int threads() const { return bm / tm * (bn / tn); }
    [[nodiscard]] constexpr int warp_m() const { return lanes_m * tm; }
    [[nodiscard]] constexpr int warp_n() const { return 32 / lanes_m * tn; }
};

// The tiles that `pipelined` chooses from, by element type. These tables are all there is to tune.
//   bm   bn  bk  tm  tn  lanes_m  stages  resident  rate
inline constexpr std::array kTilesF32 = {
    Tile{128, 256, 16, 8, 16, 4, 3, 1, 88},  //
    Tile{128, 128, 16, 8, 8, 4, 3, 2, 82},   //
    Tile{64, 128, 16, 8, 8, 4, 3, 4, 78},    //
    Tile{16, 256, 16, 8, 4, 2, 4, 3, 60},    //
    Tile{64, 64, 16, 8, 4, 4, 4, 4, 70},     //
    Tile{32, 64, 16, 4, 4, 4, 4, 6, 55},
};
inline constexpr std::array kTiles32 = {
    Tile{128, 128, 16, 8, 8, 4, 3, 2, 80},  // i32, f16, bf16
    Tile{64, 64, 16, 8, 4, 4, 3, 4, 70},
};
inline constexpr std::array kTiles64 = {
    Tile{128, 128, 8, 8, 8, 4, 4, 1, 85},  // f64, c64, i64
    Tile{32, 64, 8, 4, 4, 4, 4, 4, 55},
};
inline constexpr std::array kTiles128 = {
    Tile{64, 64, 8, 4, 4, 4, 3, 1, 80},  // c128
};

/// How the tiles of C are handed to blocks: the first `whole` tiles to one block each, every other tile to
/// `splits` blocks that share its k and whose partial sums a second kernel adds up, always in one order.
struct Schedule {
    std::int64_t whole = 0;
    int splits = 1;
    double clocks = 0;  ///< the estimate that the choice rests on
};

/// Clock cycles that the schedule is expected to take. The model: blocks run in waves over the
/// multiprocessors; one at a time on a multiprocessor cannot hide its own latency; each wave pays for the
/// start and the end of its blocks, and the second kernel for its launch and its traffic.
constexpr double estimate_clocks(const Tile& t, std::int64_t tiles, std::int64_t k, std::int64_t whole,
                                 int splits, int multiprocessors) {
    constexpr double kBlockClocks = 3000;   // first loads and last stores of a block
    constexpr double kSecondClocks = 5000;  // launch and latency of the kernel that adds up
    constexpr double kSecondBytesPerClock = 1500;
    const auto wave_clocks = [&](std::int64_t blocks, double steps) {
        if (blocks == 0) return 0.0;
        const std::int64_t at_once = std::int64_t{multiprocessors} * t.resident;
        double clocks = 0;
        for (const auto& [waves, together] :
             {std::pair{blocks / at_once, std::int64_t{t.resident}},
              std::pair{std::int64_t{blocks % at_once != 0},
                        (blocks % at_once + multiprocessors - 1) / multiprocessors}}) {
            const double warps = static_cast<double>(together) * t.threads() / 128;  // on each scheduler
            const double filled = warps >= 4 ? 1.0 : warps >= 2 ? 0.98 : 0.75 * warps;
            const double full = 128.0 * t.rate / 100 * filled;
            clocks += static_cast<double>(waves) *
                      (static_cast<double>(together) * t.bm * t.bn * steps / full + kBlockClocks);
        }
        return clocks;
    };
    const auto depth = static_cast<double>(k);
    double clocks = wave_clocks(whole, depth);
    if (tiles > whole) {
        clocks += wave_clocks((tiles - whole) * splits, depth / splits);
        if (splits > 1) {
            clocks += kSecondClocks +
                      static_cast<double>(tiles - whole) * splits * t.bm * t.bn * 8 / kSecondBytesPerClock;
        }
    }
    return clocks;
}

/// The best split of k for one tile shape: none, only the tiles that do not fill the last wave, or all.
constexpr Schedule best_schedule(const Tile& t, std::int64_t m, std::int64_t n, std::int64_t k,
                                 int multiprocessors) {
    const std::int64_t tiles = ((m + t.bm - 1) / t.bm) * ((n + t.bn - 1) / t.bn);
    const std::int64_t at_once = std::int64_t{multiprocessors} * t.resident;
    const std::int64_t steps = (k + t.bk - 1) / t.bk;
    Schedule best{tiles, 1, estimate_clocks(t, tiles, k, tiles, 1, multiprocessors)};
    const std::int64_t whole = tiles / at_once * at_once;
    for (int splits = 2; splits <= 512; splits += splits < 16 ? 1 : splits / 8) {
        if (splits * 4 > steps) break;  // a block must have some stages to work on
        if ((tiles - whole) * splits > 4 * at_once) break;
        const double clocks = estimate_clocks(t, tiles, k, whole, splits, multiprocessors);
        if (clocks < best.clocks) best = {whole, splits, clocks};
    }
    return best;
}

/// A tile of a table, by its index, and its schedule.
struct Plan {
    std::size_t tile = 0;
    Schedule schedule;
};

/// The tile and schedule that are expected to be the fastest for this shape.
template <std::size_t kCount>
constexpr Plan plan_tiles(const std::array<Tile, kCount>& tiles, std::int64_t m, std::int64_t n,
                          std::int64_t k, int multiprocessors) {
    Plan best{0, best_schedule(tiles[0], m, n, k, multiprocessors)};
    for (std::size_t i = 1; i < kCount; ++i) {
        const Schedule schedule = best_schedule(tiles[i], m, n, k, multiprocessors);
        if (schedule.clocks < best.schedule.clocks) best = {i, schedule};
    }
    return best;
}

}  // namespace gpumat::multiply::gpu
