#pragma once

// Which tile `wgmma` takes, and into how many runs it splits k.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "kernels/multiply/gpu/levels.hpp"

namespace gpumat::multiply::gpu {

struct WgmmaPlan {
    int columns = 256;  ///< of a tile, which has 128 rows
    int splits = 1;
    int band = 16;  ///< rows of tiles that are walked through column by column
    double clocks = 0;
};

/// A tile's cost in clocks of a multiprocessor.
struct WgmmaTile {
    int columns;
    int cluster;   ///< blocks that work together
    double stage;  ///< of 128 bytes of k
    double fixed;  ///< before the first stage and after the last
};
inline constexpr std::array kWgmmaTiles = {
    WgmmaTile{256, 2, 560, 2600},
    WgmmaTile{128, 1, 300, 2200},
    WgmmaTile{64, 1, 200, 2000},
};

/// The plan that is expected to be the fastest, of those that the problem's parameters allow.
inline WgmmaPlan plan_wgmma(const Problem& p, int factor_bytes, int multiprocessors) {
    constexpr int kRows = 128;
    constexpr double kAddClocks = 6000;      // to start the kernel that adds up
    constexpr double kBytesPerClock = 1600;  // of sums, read and written
    const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by; };
    const std::int64_t stages = up(p.k * factor_bytes, 128);
    const std::string_view tile_asked = parameter_choice(kWgmmaParameters, p, "tile");
    const std::string_view splits_asked = parameter_choice(kWgmmaParameters, p, "split");
    WgmmaPlan best;
    best.clocks = std::numeric_limits<double>::infinity();
    for (const WgmmaTile& tile : kWgmmaTiles) {
        if (tile_asked != kWgmmaAuto && tile_asked != std::to_string(tile.columns)) continue;
        const std::int64_t slots = std::max(1, multiprocessors / tile.cluster);
        const std::int64_t tiles = up(p.m, kRows * tile.cluster) * up(p.n, tile.columns);
        for (const int splits : kWgmmaSplitCounts) {
            if (splits_asked != kWgmmaAuto && splits_asked != std::to_string(splits)) continue;
            if (splits > 1 && splits > stages) continue;
            const auto waves = static_cast<double>(up(tiles * splits, slots));
            double clocks = waves * (tile.fixed + tile.stage * static_cast<double>(up(stages, splits)));
            if (splits > 1) {
                clocks += kAddClocks + static_cast<double>(p.m) * static_cast<double>(p.n) * 4 *
                                           (2.0 * splits + 1) / kBytesPerClock;
            }
            if (clocks < best.clocks)
                best = {.columns = tile.columns, .splits = splits, .band = best.band, .clocks = clocks};
        }
    }
    return best;
}

}  // namespace gpumat::multiply::gpu
