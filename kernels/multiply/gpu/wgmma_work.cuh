#pragma once

// Which tiles and runs of k each cluster of the level `wgmma` takes, and in which order.
#include <cstdint>

namespace gpumat::multiply::gpu {

/// A division of the work. Tiles are counted in units of a cluster's: kCluster·kBm rows by kBn columns. The
/// first `whole` items, each a tile with a run of k, go to one cluster each, in turn; the stages of all other
/// tiles are shared out evenly to some clusters.
struct WgmmaWork {
    int tiles_m = 0;
    int tiles_n = 0;
    int stages = 0;   ///< of 128 bytes of k
    int splits = 1;   ///< runs that k is cut into, each with sums of its own
    int whole = 0;    ///< a multiple of the clusters, or all items
    int sharing = 1;  ///< clusters that the stages of other tiles are shared out to
    int band = 8;     ///< rows of tiles that are walked through column by column

    [[nodiscard]] __host__ __device__ int items() const { return tiles_m * tiles_n * splits; }
};

/// An item of work: the place of a cluster's tile, and a run of stages.
struct WgmmaItem {
    int tile_m = 0, tile_n = 0, split = 0;
    int first_stage = 0, last_stage = 0;
    int followers = 0;     ///< clusters after this one whose sums, kept aside, belong to the same tile
    bool follows = false;  ///< its own sums are kept aside for the cluster that began the tile

    __device__ void place(const WgmmaWork& work, int tile) {
        const int whole_band = work.band * work.tiles_n;
        const int band = tile / whole_band;
        const int rows = min(work.band, work.tiles_m - band * work.band);
        const int within = tile - band * whole_band;
        tile_n = within / rows;
        tile_m = band * work.band + within - tile_n * rows;
    }
};

/// The items of a cluster, in order. Of those that are shared the one that follows others comes first, so
/// that nobody waits for somebody who waits.
struct WgmmaSchedule {
    const WgmmaWork& work;
    int cluster;
    int clusters;
    int next_whole;
    std::int64_t unit;  ///< stages of shared tiles, counted through
    std::int64_t end;

    __device__ WgmmaSchedule(const WgmmaWork& given, int cluster_size)
        : work(given),
          cluster(static_cast<int>(blockIdx.x) / cluster_size),
          clusters(static_cast<int>(gridDim.x) / cluster_size),
          next_whole(cluster),
          unit(0),
          end(0) {
        // Divisions of 64 bits are long, and the first copy waits for what comes before it.
        if (work.whole == work.items()) return;
        unit = first_unit(cluster);
        end = first_unit(cluster + 1);
    }

    __device__ std::int64_t first_unit(int of_cluster) const {
        return std::int64_t{work.items() - work.whole} * work.stages * min(of_cluster, work.sharing) /
               work.sharing;
    }

    __device__ bool next(WgmmaItem& item) {
        item = {};
        if (next_whole < work.whole) {
            int tile = next_whole;
            item.last_stage = work.stages;
            if (work.splits > 1) {
                const std::int64_t stages = work.stages;
                item.split = tile / (work.tiles_m * work.tiles_n);
                tile -= item.split * (work.tiles_m * work.tiles_n);
                item.first_stage = static_cast<int>(stages * item.split / work.splits);
                item.last_stage = static_cast<int>(stages * (item.split + 1) / work.splits);
            }
            item.place(work, tile);
            next_whole += clusters;
            return true;
        }
        if (unit >= end) return false;
        const auto tile = static_cast<int>(unit / work.stages);
        const std::int64_t tile_end = std::int64_t{tile + 1} * work.stages;
        item.place(work, work.whole + tile);
        item.first_stage = static_cast<int>(unit - std::int64_t{tile} * work.stages);
        item.last_stage = item.first_stage + static_cast<int>(min(end, tile_end) - unit);
        item.follows = item.first_stage != 0;
        unit = min(end, tile_end);
        if (!item.follows) {
            while (first_unit(cluster + 1 + item.followers) < tile_end) ++item.followers;
        }
        return true;
    }
};

}  // namespace gpumat::multiply::gpu
