#pragma once

#include <algorithm>
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
    Tile{64, 64, 8, 4, 4, 4, 3, 1, 72},  // c128
};

// The same for operands that lie k by k, fed by the copy engine.
inline constexpr std::array kPackedF32 = {
    Tile{256, 96, 20, 16, 12, 4, 4, 2, 85, true},
    Tile{128, 128, 32, 8, 16, 4, 3, 2, 84, true},
    Tile{128, 64, 16, 8, 8, 4, 4, 4, 80, true},
};
inline constexpr std::array kPacked32 = {
    Tile{128, 128, 32, 8, 16, 4, 3, 2, 84, true},  // i32, f16, bf16
    Tile{128, 64, 16, 8, 8, 4, 4, 4, 80, true},
};
inline constexpr std::array kPacked64 = {
    Tile{128, 128, 32, 8, 8, 4, 3, 1, 79, true},  // f64, i64
    Tile{128, 64, 16, 8, 8, 4, 4, 2, 75, true},
};
inline constexpr std::array kPackedC64 = {
    Tile{128, 128, 32, 8, 8, 4, 3, 1, 87, true},  // c64
    Tile{128, 64, 20, 8, 8, 4, 3, 2, 86, true},
};
inline constexpr std::array kPacked128 = {
    Tile{128, 64, 16, 8, 4, 4, 4, 1, 77, true},  // c128
};

/// A part of C for each block: the first `whole` tiles to one block each, every other tile to `splits` blocks
/// that share its k. A second kernel adds up the partial sums, always in one order, here and below.
struct Split {
    std::int64_t whole = 0;
    int splits = 1;
    double clocks = 0;  ///< the estimate that the choice rests on
};

/// Equal work for each block: `whole` tiles by itself, and of the steps in k of all other tiles an equal run.
struct Share {
    std::int64_t blocks = 1;
    std::int64_t whole = 0;
    double clocks = 0;
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

/// Clock cycles that blocks take which each compute `depth` steps of k, in `parts` parts of tiles. The model:
/// blocks run in waves over the multiprocessors; fewer blocks on one than it can hold do not hide their own
/// latency; every part pays for its first loads and last stores, which other blocks on the multiprocessor
/// hide in part.
constexpr double estimate_waves(const Tile& t, const Cost& cost, std::int64_t blocks, double depth,
                                std::int64_t parts, int multiprocessors) {
    constexpr double kStartClocks = 2000;
    constexpr double kStoredPerClock = 20;  // bytes of C
    const double area = static_cast<double>(t.bm) * t.bn;
    const double stored = area * static_cast<double>(cost.bytes);
    const auto wave = [&](std::int64_t together) {  // blocks on a multiprocessor
        const double filled = filled_rate(t, together);
        const auto blocks_together = static_cast<double>(together);
        const double ends =
            static_cast<double>(parts) * (kStartClocks + blocks_together * stored / kStoredPerClock);
        const double hidden = t.packed ? blocks_together : together > 1 ? 2 : 1;
        return blocks_together * area * depth * cost.clocks / (128.0 * t.rate / 100 * filled) + ends / hidden;
    };
    const std::int64_t at_once = std::int64_t{multiprocessors} * t.resident;
    const std::int64_t rest = blocks % at_once;
    double clocks = static_cast<double>(blocks / at_once) * wave(t.resident);
    if (rest != 0) clocks += wave((rest + multiprocessors - 1) / multiprocessors);
    return clocks;
}

/// Clock cycles of the second kernel, which adds up so many tiles of partial sums.
constexpr double add_clocks(const Tile& t, const Cost& cost, std::int64_t slots) {
    constexpr double kStartClocks = 8000;     // its launch and latency
    constexpr double kSummedPerClock = 1600;  // bytes written and read again
    return slots == 0 ? 0
                      : kStartClocks + static_cast<double>(slots) * t.bm * t.bn *
                                           static_cast<double>(cost.bytes) / kSummedPerClock;
}

constexpr std::int64_t tiles_of(const Tile& t, std::int64_t m, std::int64_t n) {
    return ((m + t.bm - 1) / t.bm) * ((n + t.bn - 1) / t.bn);
}

inline constexpr int kFewestSteps = 4;  ///< a block must have some stages to work on

/// The best split of k for one tile shape: none, only the tiles that do not fill the last wave, or all.
/// After whole waves the blocks have fallen out of step, and halves and thirds of tiles fill the gaps too
/// coarsely (measured).
constexpr Split best_split(const Tile& t, std::int64_t m, std::int64_t n, std::int64_t k, const Cost& cost,
                           int multiprocessors) {
    constexpr int kFewestAfterWaves = 4;
    const std::int64_t tiles = tiles_of(t, m, n);
    const std::int64_t at_once = std::int64_t{multiprocessors} * t.resident;
    const std::int64_t steps = (k + t.bk - 1) / t.bk;
    const auto depth = static_cast<double>(k);
    Split best{tiles, 1, estimate_waves(t, cost, tiles, depth, 1, multiprocessors)};
    const std::int64_t whole = tiles / at_once * at_once;
    const double whole_clocks = estimate_waves(t, cost, whole, depth, 1, multiprocessors);
    for (int splits = whole == 0 ? 2 : kFewestAfterWaves; splits <= 512;
         splits += splits < 16 ? 1 : splits / 8) {
        const std::int64_t parts = (tiles - whole) * splits;
        if (splits * kFewestSteps > steps || parts > 4 * at_once) break;
        const double clocks = whole_clocks +
                              estimate_waves(t, cost, parts, depth / splits, 1, multiprocessors) +
                              add_clocks(t, cost, parts);
        if (clocks < best.clocks) best = {whole, splits, clocks};
    }
    return best;
}

/// The best number of blocks for one tile shape: one for every tile, as many as run at once, or where there
/// are few tiles, several for every tile. Where as many as run at once share fewer tiles than that, all of
/// them are at different k and read from memory what others have read before: `out_of_step` allows it.
constexpr Share best_share(const Tile& t, std::int64_t m, std::int64_t n, std::int64_t k, const Cost& cost,
                           int multiprocessors, bool out_of_step = true) {
    constexpr std::int64_t kMostSteps = 0x7fff'ffff;  // of shared tiles, which are counted in 32 bits
    const std::int64_t tiles = tiles_of(t, m, n);
    const std::int64_t at_once = std::int64_t{multiprocessors} * t.resident;
    const std::int64_t steps = (k + t.bk - 1) / t.bk;
    const auto depth = static_cast<double>(steps * t.bk);  // what is computed
    Share best{tiles, 1, estimate_waves(t, cost, tiles, depth, 1, multiprocessors)};
    const auto consider = [&](std::int64_t blocks, std::int64_t whole) {
        const std::int64_t shared = tiles - blocks * whole;
        const double each = static_cast<double>(tiles) / static_cast<double>(blocks) * depth;
        const double clocks =
            estimate_waves(t, cost, blocks, each, whole + (shared == 0 ? 0 : 1), multiprocessors) +
            add_clocks(t, cost, shared == 0 ? 0 : blocks + shared);
        if (clocks < best.clocks) best = {blocks, whole, clocks};
    };
    if (steps < kFewestSteps || tiles * steps > kMostSteps) return best;
    if (tiles > at_once || (out_of_step && tiles * steps >= kFewestSteps * at_once))
        consider(at_once, tiles / at_once);
    for (std::int64_t splits = 2; splits * kFewestSteps <= steps && tiles * splits <= at_once; ++splits)
        consider(tiles * splits, 0);
    return best;
}

/// Clock cycles that packing operands to that many bytes takes, in two launches at most.
constexpr double pack_clocks(double bytes) {
    constexpr double kBytesPerClock = 800;  // read once and written once
    constexpr double kStartClocks = 5000;
    return bytes == 0 ? 0 : kStartClocks + bytes / kBytesPerClock;
}

/// A tile of a table, by its index, and its schedule, a Split or a Share.
template <class Schedule>
struct Plan {
    std::size_t tile = 0;
    Schedule schedule;
};

/// The tile with as many blocks resident as the device's shared memory allows.
constexpr Tile held_by(std::uint64_t shared_bytes, Tile t, std::size_t element_bytes) {
    const auto most =
        static_cast<int>(std::min<std::uint64_t>(shared_bytes / t.shared_bytes(element_bytes), t.resident));
    t.resident = std::max(most, 1);
    return t;
}

/// The tile and schedule that are expected to be the fastest for this shape, of those tiles that fit in the
/// device's shared memory. The last tile of a table is its smallest, and fits on every device.
template <std::size_t kCount>
constexpr Plan<Split> plan_tiles(const std::array<Tile, kCount>& tiles, std::int64_t m, std::int64_t n,
                                 std::int64_t k, const Cost& cost, int multiprocessors,
                                 std::uint64_t shared_bytes) {
    const auto schedule_of = [&](const Tile& tile) {
        return best_split(held_by(shared_bytes, tile, cost.bytes), m, n, k, cost, multiprocessors);
    };
    Plan<Split> best{kCount - 1, schedule_of(tiles[kCount - 1])};
    for (std::size_t i = 0; i + 1 < kCount; ++i) {
        if (tiles[i].shared_bytes(cost.bytes) > shared_bytes) continue;
        const Split schedule = schedule_of(tiles[i]);
        if (schedule.clocks < best.schedule.clocks) best = {i, schedule};
    }
    return best;
}

}  // namespace gpumat::multiply::gpu
