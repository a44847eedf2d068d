#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gpumat::multiply::gpu {

/// A block tile of `pipelined` and how its threads share it. Extents are in elements.
struct Tile {
    int bm, bn, bk;       ///< tile of C, and the depth of one stage
    int tm, tn;           ///< tile of C of one thread
    int lanes_m;          ///< rows of the warp's grid of lanes: lanes_m × (32 / lanes_m)
    int stages;           ///< stages in shared memory
    int resident;         ///< blocks that a multiprocessor must hold at once
    int rate;             ///< measured: percent of the arithmetic peak when the device is full
    bool packed = false;  ///< for the kernel `packed`

    [[nodiscard]] constexpr int threads() const { return bm / tm * (bn / tn); }
    [[nodiscard]] constexpr int warp_m() const { return lanes_m * tm; }
    [[nodiscard]] constexpr int warp_n() const { return 32 / lanes_m * tn; }
    /// The most shared memory that a block takes, with elements of that size.
    [[nodiscard]] constexpr std::uint64_t shared_bytes(std::size_t element_bytes) const {
        return static_cast<std::uint64_t>(stages * bk) *
               (static_cast<std::size_t>(bm + bn) * element_bytes + 32);
    }
};

// The tiles that `pipelined` chooses from, by element type. These tables are all there is to tune.
//   bm   bn  bk  tm  tn  lanes_m  stages  resident  rate
inline constexpr std::array kTilesF32 = {
    Tile{128, 128, 16, 8, 16, 4, 3, 2, 78},  //
    Tile{64, 256, 8, 8, 16, 4, 4, 2, 77},    //
    Tile{128, 256, 8, 8, 16, 4, 4, 1, 73},   //
    Tile{64, 128, 16, 8, 8, 4, 3, 4, 72},    //
    Tile{16, 256, 16, 8, 4, 2, 4, 3, 60},    //
    Tile{16, 128, 16, 4, 4, 2, 4, 4, 57},    //
    Tile{64, 64, 16, 8, 4, 4, 4, 4, 66},     //
    Tile{32, 64, 16, 4, 4, 4, 4, 6, 57},
};
inline constexpr std::array kTiles32 = {
    Tile{128, 128, 16, 8, 8, 4, 3, 2, 80},  // i32, f16, bf16
    Tile{64, 64, 16, 8, 4, 4, 3, 4, 70},
};
inline constexpr std::array kTiles64 = {
    Tile{128, 128, 8, 8, 8, 4, 4, 1, 75},  // f64, c64, i64
    Tile{32, 64, 8, 4, 4, 4, 4, 4, 55},
};
inline constexpr std::array kTiles128 = {
    Tile{64, 64, 8, 4, 4, 4, 3, 1, 80},  // c128
};

// The same for operands that lie k by k, fed by the copy engine.
inline constexpr std::array kPacked32 = {
    Tile{128, 128, 16, 8, 16, 4, 4, 2, 82, true},  // f32, i32, f16, bf16
    Tile{128, 96, 16, 8, 12, 4, 4, 3, 83, true},   //
    Tile{128, 64, 16, 8, 8, 4, 4, 4, 82, true},
};
inline constexpr std::array kPacked64 = {
    Tile{128, 128, 16, 8, 8, 4, 4, 1, 79, true},  // f64, i64
    Tile{128, 64, 16, 8, 8, 4, 4, 2, 78, true},
};
inline constexpr std::array kPackedC64 = {
    Tile{128, 48, 8, 8, 6, 4, 6, 3, 83, true},  // c64
    Tile{128, 128, 16, 8, 8, 4, 4, 1, 82, true},
    Tile{128, 64, 16, 8, 8, 4, 4, 2, 81, true},
};
inline constexpr std::array kPacked128 = {
    Tile{64, 64, 8, 8, 4, 4, 4, 1, 85, true},  // c128
};

/// How the tiles of C are handed to blocks: the first `whole` tiles to one block each, every other tile to
/// `splits` blocks that share its k and whose partial sums a second kernel adds up, always in one order.
struct Schedule {
    std::int64_t whole = 0;
    int splits = 1;
    double clocks = 0;  ///< the estimate that the choice rests on
};

/// What one element costs, by its type.
struct Cost {
    double clocks;      ///< of a multiply-add, in those of f32
    std::size_t bytes;  ///< of a sum
};

/// The share of the full rate that so many blocks on a multiprocessor reach. Measured: with the kernel
/// `packed`, two warps a scheduler come close to it; with the other, a quarter of the blocks reach half of
/// it.
constexpr double filled_rate(const Tile& t, std::int64_t blocks) {
    if (blocks >= t.resident) return 1;
    if (!t.packed) return 0.35 + 0.65 * static_cast<double>(blocks) / t.resident;
    const std::int64_t warps = blocks * t.threads() / 128;  // a scheduler
    return warps >= 3 ? 1 : warps == 2 ? 0.96 : 0.6;
}

/// Clock cycles that blocks take which each compute `depth` steps of k. The model: blocks run in waves over
/// the multiprocessors; fewer blocks on one than it can hold do not hide their own latency; every wave pays
/// for the first loads and last stores of its blocks, which other blocks on the multiprocessor hide in part.
constexpr double estimate_waves(const Tile& t, const Cost& cost, std::int64_t blocks, double depth,
                                int multiprocessors) {
    constexpr double kStartClocks = 2000;
    constexpr double kStoredPerClock = 20;  // bytes of C
    const double area = static_cast<double>(t.bm) * t.bn;
    const double stored = area * static_cast<double>(cost.bytes);
    const auto wave = [&](std::int64_t together) {  // blocks on a multiprocessor
        const double filled = filled_rate(t, together);
        const auto blocks_together = static_cast<double>(together);
        const double ends = kStartClocks + blocks_together * stored / kStoredPerClock;
        return blocks_together * area * depth * cost.clocks / (128.0 * t.rate / 100 * filled) +
               (together > 1 ? ends / 2 : ends);
    };
    const std::int64_t at_once = std::int64_t{multiprocessors} * t.resident;
    const std::int64_t rest = blocks % at_once;
    double clocks = static_cast<double>(blocks / at_once) * wave(t.resident);
    if (rest != 0) clocks += wave((rest + multiprocessors - 1) / multiprocessors);
    return clocks;
}

/// Clock cycles that a schedule of all tiles is expected to take, with the second kernel that adds up parts.
constexpr double estimate_clocks(const Tile& t, const Cost& cost, std::int64_t tiles, double depth,
                                 std::int64_t whole, int splits, int multiprocessors) {
    constexpr double kSecondClocks = 9000;    // its launch and latency
    constexpr double kSummedPerClock = 1600;  // bytes written and read again
    double clocks = estimate_waves(t, cost, whole, depth, multiprocessors);
    if (tiles > whole) {
        const std::int64_t parts = (tiles - whole) * splits;
        clocks +=
            estimate_waves(t, cost, parts, depth / splits, multiprocessors) + kSecondClocks +
            static_cast<double>(parts) * t.bm * t.bn * static_cast<double>(cost.bytes) / kSummedPerClock;
    }
    return clocks;
}

/// The best split of k for one tile shape: none, only the tiles that do not fill the last wave, or all.
/// After whole waves the blocks have fallen out of step, and halves and thirds of tiles fill the gaps too
/// coarsely (measured).
constexpr Schedule best_schedule(const Tile& t, std::int64_t m, std::int64_t n, std::int64_t k,
                                 const Cost& cost, int multiprocessors) {
    constexpr int kFewestAfterWaves = 4;
    const std::int64_t tiles = ((m + t.bm - 1) / t.bm) * ((n + t.bn - 1) / t.bn);
    const std::int64_t at_once = std::int64_t{multiprocessors} * t.resident;
    const std::int64_t steps = (k + t.bk - 1) / t.bk;
    const auto depth = static_cast<double>(k);
    Schedule best{tiles, 1, estimate_clocks(t, cost, tiles, depth, tiles, 1, multiprocessors)};
    const std::int64_t whole = tiles / at_once * at_once;
    for (int splits = whole == 0 ? 2 : kFewestAfterWaves; splits <= 512;
         splits += splits < 16 ? 1 : splits / 8) {
        if (splits * 4 > steps) break;  // a block must have some stages to work on
        if ((tiles - whole) * splits > 4 * at_once) break;
        const double clocks = estimate_clocks(t, cost, tiles, depth, whole, splits, multiprocessors);
        if (clocks < best.clocks) best = {whole, splits, clocks};
    }
    return best;
}

/// Clock cycles that packing operands to that many bytes takes, in two launches at most.
constexpr double pack_clocks(double bytes) {
    constexpr double kBytesPerClock = 800;  // read once and written once
    constexpr double kStartClocks = 5000;
    return bytes == 0 ? 0 : kStartClocks + bytes / kBytesPerClock;
}

/// A tile of a table, by its index, and its schedule.
struct Plan {
    std::size_t tile = 0;
    Schedule schedule;
};

/// The tile and schedule that are expected to be the fastest for this shape, of those tiles that fit in the
/// device's shared memory. The last tile of a table is its smallest, and fits on every device.
template <std::size_t kCount>
constexpr Plan plan_tiles(const std::array<Tile, kCount>& tiles, std::int64_t m, std::int64_t n,
                          std::int64_t k, const Cost& cost, int multiprocessors, std::uint64_t shared_bytes) {
    Plan best{kCount - 1, best_schedule(tiles[kCount - 1], m, n, k, cost, multiprocessors)};
    for (std::size_t i = 0; i + 1 < kCount; ++i) {
        if (tiles[i].shared_bytes(cost.bytes) > shared_bytes) continue;
        const Schedule schedule = best_schedule(tiles[i], m, n, k, cost, multiprocessors);
        if (schedule.clocks < best.schedule.clocks) best = {i, schedule};
    }
    return best;
}

}  // namespace gpumat::multiply::gpu
