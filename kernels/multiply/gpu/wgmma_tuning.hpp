#pragma once

// Which tile `wgmma` takes, and into how many runs it splits k.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/multiply/gpu/levels.hpp"

namespace gpumat::multiply::gpu {

struct WgmmaPlan {
    int columns = 256;  ///< of a tile, which has 128 rows
    int splits = 1;     ///< runs of k that every tile is cut into
    int sharing = 0;    ///< clusters that share the tiles of the last wave evenly; 0: a tile to each
    int band = 16;      ///< rows of tiles that are walked through column by column
    double clocks = 0;
};

/// A tile's cost in clocks of a multiprocessor, measured on an H100. Stages of narrow tiles wait for L2.
struct WgmmaTile {
    int columns;
    int cluster;   ///< blocks that work together
    double stage;  ///< of 128 bytes of k
    double fixed;  ///< before the first stage and after the last
    double keep;   ///< to keep the sums of a part of a tile, or to add them
};
inline constexpr std::array kWgmmaTiles = {
    WgmmaTile{256, 2, 1160, 2000, 3500},
    WgmmaTile{192, 2, 930, 1750, 2650},
    WgmmaTile{128, 2, 734, 1500, 1800},
    WgmmaTile{64, 1, 644, 1200, 900},
};

/// The plan that is expected to be the fastest, of those that the problem's parameters allow.
inline WgmmaPlan plan_wgmma(const Problem& p, int factor_bytes, int multiprocessors) {
    constexpr int kRows = 128;
    constexpr double kAddClocks = 9000;      // to start the kernel that adds up
    constexpr double kBytesPerClock = 1600;  // of sums, read and written
    constexpr double kApart = 1.4;           // clusters at different k share less in L2
    constexpr double kHandOver = 4000;       // until sums that one kept are seen by another
    const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by; };
    const std::int64_t stages = up(p.k * factor_bytes, 128);
    const std::string_view tile_asked = parameter_choice(kWgmmaParameters, p, "tile");
    const std::string_view splits_asked = parameter_choice(kWgmmaParameters, p, "split");
    WgmmaPlan best;
    best.clocks = std::numeric_limits<double>::infinity();
    const auto consider = [&](int columns, int splits, int sharing, double clocks) {
        if (clocks < best.clocks) {
            best = {.columns = columns,
                    .splits = splits,
                    .sharing = sharing,
                    .band = best.band,
                    .clocks = clocks};
        }
    };
    for (const WgmmaTile& tile : kWgmmaTiles) {
        if (tile_asked != kWgmmaAuto && tile_asked != std::to_string(tile.columns)) continue;
        const std::int64_t slots = std::max(1, multiprocessors / tile.cluster);
        const std::int64_t tiles = up(p.m, kRows * tile.cluster) * up(p.n, tile.columns);
        for (const int splits : kWgmmaSplitCounts) {
            if (splits_asked != kWgmmaAuto && splits_asked != std::to_string(splits)) continue;
            if (splits > stages) continue;
            const auto waves = static_cast<double>(up(tiles * splits, slots));
            double clocks = waves * (tile.fixed + tile.stage * static_cast<double>(up(stages, splits)));
            if (splits > 1) {
                clocks += kAddClocks + static_cast<double>(p.m) * static_cast<double>(p.n) * 4 *
                                           (2.0 * splits + 1) / kBytesPerClock;
            }
            consider(tile.columns, splits, 0, clocks);
        }
        const std::int64_t left = tiles % slots;
        if (left == 0 || (splits_asked != kWgmmaAuto && splits_asked != kWgmmaShare)) continue;
        const auto consider_sharing = [&](std::int64_t sharing) {
            if (left * stages < 2 * sharing) return;
            const auto together = static_cast<double>(up(sharing, left) + (sharing % left == 0 ? 0 : 1));
            const double run = static_cast<double>(left * stages) / static_cast<double>(sharing);
            consider(tile.columns, 1, static_cast<int>(sharing),
                     kHandOver +
                         static_cast<double>(tiles / slots) *
                             (tile.fixed + tile.stage * static_cast<double>(stages)) +
                         tile.fixed + kApart * tile.stage * run + together * tile.keep);
        };
        for (std::int64_t parts = 2; parts * left <= slots; ++parts) consider_sharing(parts * left);
        consider_sharing(slots);
    }
    return best;
}

}  // namespace gpumat::multiply::gpu
