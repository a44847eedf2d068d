#pragma once

// What the two kernels of the level `pipelined` share: how blocks and threads divide C, what becomes of the
// sums, and the launch.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/common/overlap.cuh"
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/gpu/tuning.hpp"
#include "kernels/multiply/gpu/vectors.cuh"

namespace gpumat::multiply::gpu {

/// The tiles of C and their order. Tiles of one group share `group` rows of tiles, so that those that are
/// worked on together read few rows of A and columns of B, which stay in the L2 cache.
struct Tiles {
    int rows;
    int cols;
    int group;

    struct Corner {
        int m, n;
    };
    /// The tile's row and column among the tiles.
    __device__ Corner corner(std::int64_t tile) const {
        const auto index = static_cast<unsigned>(tile);
        const unsigned per_group = static_cast<unsigned>(group) * static_cast<unsigned>(cols);
        const unsigned first = index / per_group * static_cast<unsigned>(group);
        const unsigned height = min(static_cast<unsigned>(rows) - first, static_cast<unsigned>(group));
        const unsigned rest = index % per_group;
        return {static_cast<int>(first + rest % height), static_cast<int>(rest / height)};
    }
};

/// What a block computes in one go: a tile of C, or some of its steps in k.
template <class Index>
struct Part {
    Index i0, j0;  ///< the tile's first row and column
    Index first;   ///< step
    Index steps;
    int slot;  ///< of the partial sums; negative where the part is all of the tile
};

/// A part for each block; see Split.
struct SplitTiles {
    std::int64_t whole;
    int splits;
    std::int64_t steps;       ///< of a tile
    std::int64_t steps_each;  ///< of a block where tiles are split; the last ones may have fewer or none

    [[nodiscard]] __device__ std::int64_t first_shared() const { return whole; }
    [[nodiscard]] __device__ int first_slot(int shared_tile) const { return shared_tile * splits; }
    [[nodiscard]] __device__ int parts(int) const { return splits; }

    /// This block's part.
    [[nodiscard]] __device__ Part<std::int64_t> part(const Tiles& tiles, Tile t) const {
        Part<std::int64_t> part{.i0 = 0, .j0 = 0, .first = 0, .steps = steps, .slot = -1};
        std::int64_t tile = blockIdx.x;
        if (tile >= whole) {
            part.slot = static_cast<int>(tile - whole);
            tile = whole + part.slot / splits;
            part.first = part.slot % splits * steps_each;
            part.steps = max(std::int64_t{0}, min(steps_each, steps - part.first));
        }
        const auto corner = tiles.corner(tile);
        part.i0 = std::int64_t{corner.m} * t.bm;
        part.j0 = std::int64_t{corner.n} * t.bn;
        return part;
    }
};

/// Whole tiles and a share of others for each block; see Share. Shared tiles are the last ones; their steps
/// in k count on from one tile to the next.
struct ShareTiles {
    int blocks;
    int whole;           ///< tiles that each block computes by itself
    int shared;          ///< tiles that are shared
    std::int64_t steps;  ///< of a tile; below 2^31 together where tiles are shared
    int share;           ///< steps of shared tiles for each block,
    int longer;          ///< and one more for so many of them

    [[nodiscard]] __device__ std::int64_t first_shared() const { return std::int64_t{whole} * blocks; }
    /// The first step of a block's share.
    [[nodiscard]] __device__ int share_begin(int block) const { return block * share + min(block, longer); }
    /// The block whose share has that step.
    [[nodiscard]] __device__ int sharer(int step) const {
        const int in_longer = longer * (share + 1);
        return step < in_longer ? step / (share + 1) : longer + (step - in_longer) / share;
    }
    /// Where a block's part of a shared tile is among the partial sums: blocks and tiles advance in turns.
    [[nodiscard]] __device__ static int slot(int block, int shared_tile) { return block + shared_tile; }
    [[nodiscard]] __device__ int first_slot(int shared_tile) const {
        return slot(sharer(shared_tile * static_cast<int>(steps)), shared_tile);
    }
    [[nodiscard]] __device__ int parts(int shared_tile) const {
        const auto tile_steps = static_cast<int>(steps);
        return sharer((shared_tile + 1) * tile_steps - 1) - sharer(shared_tile * tile_steps) + 1;
    }
};

/// The parts of C that this block computes, one after the other: whole tiles, then its share.
class SharedParts {
  public:
    __device__ explicit SharedParts(const ShareTiles& division)
        : at_(division.shared != 0 ? division.share_begin(static_cast<int>(blockIdx.x)) : 0),
          end_(division.shared != 0 ? division.share_begin(static_cast<int>(blockIdx.x) + 1) : 0) {}

    /// Moves on to the next part. Returns false after the last.
    template <class Index>
    __device__ bool next(const Tiles& tiles, const ShareTiles& division, Tile t, Part<Index>& part) {
        const auto tile_steps = static_cast<int>(division.steps);
        int tile = 0;
        part.slot = -1;
        if (index_ < division.whole) {
            tile = static_cast<int>(blockIdx.x) + index_ * division.blocks;
            part.first = 0;
            part.steps = tile_steps;
        } else {
            if (at_ >= end_) return false;
            const int shared = at_ / tile_steps;
            tile = division.whole * division.blocks + shared;
            part.first = at_ - shared * tile_steps;
            const int steps = min(tile_steps - (at_ - shared * tile_steps), end_ - at_);
            part.steps = steps;
            if (steps != tile_steps) part.slot = division.slot(static_cast<int>(blockIdx.x), shared);
            at_ += steps;
        }
        ++index_;
        const auto corner = tiles.corner(tile);
        part.i0 = Index{corner.m} * t.bm;
        part.j0 = Index{corner.n} * t.bn;
        return true;
    }

  private:
    int index_ = 0;  ///< of the next part
    int at_;         ///< the step of shared tiles that comes next
    int end_;
};

/// What all blocks of a launch do. Division is SplitTiles or ShareTiles.
template <class T, class Division>
struct Work {
    Tiles tiles;
    Division division;
    Sum<T>* partial;  ///< tiles of sums, by their slots
};

/// Whether rows of C and D can be accessed in vectors of kVector<T> elements.
template <class T>
__device__ inline bool writes_vectors(const Arguments<T>& p) {
    constexpr auto kBytes = kVector<T> * sizeof(T);
    return (p.n | p.ldc | p.ldd) % kVector<T> == 0 && reinterpret_cast<std::uintptr_t>(p.c) % kBytes == 0 &&
           reinterpret_cast<std::uintptr_t>(p.d) % kBytes == 0;
}

/// kCount consecutive elements of a row of C, of which those inside the matrix are written.
template <class T, int kCount>
__device__ inline void finish_vector(const Arguments<T>& p, bool aligned, std::int64_t i, std::int64_t j,
                                     const Sum<T> (&sums)[kCount]) {
    if (aligned && j + kCount <= p.n) {
        Vector<T, kCount> d{};
        if (p.d != nullptr) d = *reinterpret_cast<const Vector<T, kCount>*>(p.d + i * p.ldd + j);
        Vector<T, kCount> c;
        for (int e = 0; e < kCount; ++e) {
            Sum<T> result = multiply_add(p.alpha, sums[e], Sum<T>{});
            if (p.d != nullptr) result = multiply_add(p.beta, to_sum(d.at[e]), result);
            c.at[e] = from_sum<T>(result);
        }
        *reinterpret_cast<Vector<T, kCount>*>(p.c + i * p.ldc + j) = c;
    } else {
        for (int e = 0; e < kCount; ++e) {
            if (j + e < p.n) p.finish(i, j + e, sums[e]);
        }
    }
}

/// A tile as a type made of integers: nvcc takes no objects as template arguments of kernels.
template <int... kNumbers>
struct TileType {
    static constexpr Tile kTile{kNumbers...};
};
template <Tile t>
using TypeOf = TileType<t.bm, t.bn, t.bk, t.tm, t.tn, t.lanes_m, t.stages, t.resident, 0>;

/// The checks of a tile that both kernels make.
template <class T, Tile kTile>
constexpr bool tile_fits_threads() {
    static_assert(kTile.bm % kTile.warp_m() == 0 && kTile.bn % kTile.warp_n() == 0, "warps tile the block");
    static_assert(kTile.threads() == kTile.bm / kTile.warp_m() * (kTile.bn / kTile.warp_n()) * 32,
                  "every warp has a tile");
    static_assert(kTile.tm % kVector<T> == 0 && kTile.tn % kVector<T> == 0, "thread tiles are whole vectors");
    static_assert(kTile.bm * kTile.bn % (256 * kVector<T>) == 0, "blocks that add up cover whole tiles");
    static_assert(kTile.bk % 2 == 0, "fragments alternate between two buffers");
    static_assert(kTile.stages >= 2, "one stage is filled while another is used");
    return true;
}

/// The first row and column of this thread in its block's tile. Thread tiles are made of 16-byte groups that
/// lie lanes apart, so that a warp reads whole rows of shared memory; neighbouring lanes alternate between
/// two rows (columns), so that the 16-byte reads of a half-warp fall on 128 bytes or fewer. A group has
/// kGroupA elements of A, or kVector<T> of B.
template <class T, Tile kTile, int kGroupA = kVector<T>>
struct ThreadPlace {
    static constexpr int kV = kVector<T>;
    static constexpr int kLanesM = kTile.lanes_m;
    static constexpr int kLanesN = 32 / kLanesM;
    int m;
    int n;

    __device__ ThreadPlace() {
        constexpr int kWarpsN = kTile.bn / kTile.warp_n();
        const int lane = static_cast<int>(threadIdx.x % 32);
        const int warp = static_cast<int>(threadIdx.x / 32);
        int lane_m = lane % kLanesM;
        int lane_n = lane / kLanesM;
        if constexpr (kLanesM == 4) {
            lane_m = (lane & 1) | (lane >> 4) << 1;
            lane_n = lane >> 1 & 7;
        } else if constexpr (kLanesM == 8) {
            lane_n = (lane & 1) | (lane >> 4) << 1;
            lane_m = lane >> 1 & 7;
        }
        m = warp / kWarpsN * kTile.warp_m() + lane_m * kGroupA;
        n = warp % kWarpsN * kTile.warp_n() + lane_n * kV;
    }

    /// The row (column) of element i (j) of the thread's tile.
    __device__ int row(int i) const { return m + i / kGroupA * kLanesM * kGroupA + i % kGroupA; }
    __device__ int col(int j) const { return n + j / kV * kLanesN * kV + j % kV; }
};

/// Stores a sum, the parts of a complex one by themselves.
template <class S>
__device__ inline void store_apart(S* to, S sum) {
    *to = sum;
}
template <class R>
__device__ inline void store_apart(Complex<R>* to, Complex<R> sum) {
    volatile R* const parts = reinterpret_cast<R*>(to);
    parts[0] = sum.re;
    parts[1] = sum.im;
}

/// Writes a thread's sums: to C, or where the part is not all of the tile, to its slot of the partial sums.
template <class T, Tile kTile, int kGroupA, class Index>
__device__ inline void write_sums(const Arguments<T>& p, Sum<T>* partial_sums, const Part<Index>& part,
                                  const ThreadPlace<T, kTile, kGroupA>& place,
                                  const Sum<T> (&sums)[kTile.tm][kTile.tn]) {
    using S = Sum<T>;
    constexpr int kV = kVector<T>;
    const bool partial = part.slot >= 0;
    S* const slot = partial ? partial_sums + std::int64_t{part.slot} * (kTile.bm * kTile.bn) : nullptr;
    const bool aligned = writes_vectors(p);
#pragma unroll
    for (int i = 0; i < kTile.tm; ++i) {
        const int row = place.row(i);
#pragma unroll
        for (int g = 0; g < kTile.tn / kV; ++g) {
            const int col = place.col(g * kV);
            S group[kV];
#pragma unroll
            for (int e = 0; e < kV; ++e) group[e] = sums[i][g * kV + e];
            if (partial) {
                // Part by part: a vector would tie the sums to consecutive registers all through the loop
                // above, and the compiler could not spread them over the banks.
#pragma unroll
                for (int e = 0; e < kV; ++e) store_apart(slot + row * kTile.bn + col + e, group[e]);
            } else if (std::int64_t{part.i0} + row < p.m) {
                finish_vector(p, aligned, std::int64_t{part.i0} + row, std::int64_t{part.j0} + col, group);
            }
        }
    }
}

/// Adds up the partial sums of shared tiles: 256 threads for 256 / kTogether vectors of elements of one tile;
/// thread (x, y) adds the parts y, y + kTogether … of vector x, then the kTogether sums are added in order.
template <class T, int kTogether, class Division>
__global__ void __launch_bounds__(256)
    add_partial_sums(Arguments<T> p, Work<T, Division> work, int bm, int bn) {
    using S = Sum<T>;
    constexpr int kV = kVector<T>;
    constexpr int kVectors = 256 / kTogether;
    __shared__ Vector<S, kV> added[kTogether][kVectors];
    const int x = static_cast<int>(threadIdx.x) % kVectors;
    const int y = static_cast<int>(threadIdx.x) / kVectors;
    const int area = bm * bn;
    const int blocks_per_tile = area / (kVectors * kV);
    const int tile = static_cast<int>(blockIdx.x) / blocks_per_tile;
    const int element = (static_cast<int>(blockIdx.x) % blocks_per_tile * kVectors + x) * kV;
    const int parts = work.division.parts(tile);
    const auto corner = work.tiles.corner(work.division.first_shared() + tile);
    const std::int64_t i = std::int64_t{corner.m} * bm + element / bn;
    const std::int64_t j = std::int64_t{corner.n} * bn + element % bn;

    const S* const partial = work.partial + std::int64_t{work.division.first_slot(tile)} * area + element;
    Vector<S, kV> sums{};
    wait_for_previous();     // the parts, which the kernel before this one writes
    if (parts == 1) return;  // its block has written C
    if (i < p.m && j < p.n) {
#pragma unroll 4
        for (int n = y; n < parts; n += kTogether) {
            const auto part =
                *reinterpret_cast<const Vector<S, kV>*>(partial + static_cast<std::int64_t>(n) * area);
            for (int e = 0; e < kV; ++e) sums.at[e] = sums.at[e] + part.at[e];
        }
    }
    added[y][x] = sums;
    __syncthreads();  // every part is there
    if (y == 0 && i < p.m) {
        for (int other = 1; other < kTogether; ++other) {
            for (int e = 0; e < kV; ++e) sums.at[e] = sums.at[e] + added[other][x].at[e];
        }
        finish_vector(p, writes_vectors(p), i, j, sums.at);
    }
}

/// How the tiles of C are divided among blocks, on the host.
template <class Division>
struct Divided {
    Division division;
    std::int64_t blocks;
    std::int64_t shared;  ///< tiles that several blocks work on
    std::int64_t slots;   ///< of partial sums
};

inline Divided<SplitTiles> divide(const Split& split, std::int64_t tiles, std::int64_t steps) {
    const std::int64_t whole = split.splits == 1 ? tiles : split.whole;  // one part is the whole
    const std::int64_t shared = tiles - whole;
    const std::int64_t parts = shared * split.splits;
    return {.division = {.whole = whole,
                         .splits = split.splits,
                         .steps = steps,
                         .steps_each = divide_up<std::int64_t>(steps, split.splits)},
            .blocks = whole + parts,
            .shared = shared,
            .slots = parts};
}

inline Divided<ShareTiles> divide(const Share& share, std::int64_t tiles, std::int64_t steps) {
    const std::int64_t shared = tiles - share.blocks * share.whole;
    return {.division = {.blocks = static_cast<int>(share.blocks),
                         .whole = static_cast<int>(share.whole),
                         .shared = static_cast<int>(shared),
                         .steps = steps,
                         .share = static_cast<int>(shared * steps / share.blocks),
                         .longer = static_cast<int>(shared * steps % share.blocks)},
            .blocks = share.blocks,
            .shared = shared,
            .slots = shared == 0 ? 0 : share.blocks + shared};
}

/// The launch of a level's kernel that computes tiles by that schedule, a Split or a Share. `start(grid,
/// work, stream)` starts the kernel, and what must come before it.
template <class T, class Schedule, class Start>
Launch launch_tiles(std::string_view level, const Tile& tile, const Problem& problem,
                    const Arguments<T>& arguments, const Device& device, const Schedule& schedule,
                    const void* kernel, int shared_bytes, Start start) {
    const auto tiles_m = static_cast<int>(divide_up<std::int64_t>(problem.m, tile.bm));
    const auto tiles_n = static_cast<int>(divide_up<std::int64_t>(problem.n, tile.bn));
    const auto divided =
        divide(schedule, std::int64_t{tiles_m} * tiles_n, divide_up<std::int64_t>(problem.k, tile.bk));
    using Division = decltype(divided.division);

    // Tiles under way at once cover about as many rows of A as columns of B.
    const double at_once = device.gpu->info().multiprocessors * tile.resident;
    const int square = static_cast<int>(std::sqrt(at_once * tile.bn / tile.bm) + 0.5);
    auto partial = std::make_shared<DeviceMemory>(
        device.gpu->allocate(static_cast<std::size_t>(divided.slots) * tile.bm * tile.bn * sizeof(Sum<T>)));
    const Work<T, Division> work{
        .tiles = {.rows = tiles_m, .cols = tiles_n, .group = std::clamp(square, 1, tiles_m)},
        .division = divided.division,
        .partial = static_cast<Sum<T>*>(partial->data())};
    allow_shared_memory(kernel, static_cast<std::size_t>(shared_bytes));
    const auto grid = static_cast<unsigned>(divided.blocks);
    // Many parts are shared by 8 threads, few are added by one.
    const int together = divided.slots > 8 * divided.shared ? 8 : 1;
    const auto adders =
        static_cast<unsigned>(divided.shared * (tile.bm * tile.bn * together / (256 * kVector<T>)));
    const bool overlap = overlaps_launches(device);
    Launch launch{.level = level,
                  .run =
                      [=](Stream to) {
                          cudaStream_t const stream = cuda_stream(to);
                          start(grid, work, stream);
                          GPUMAT_CUDA(cudaGetLastError());
                          if (adders == 0) return;
                          const auto add = together == 1 ? add_partial_sums<T, 1, Division>
                                                         : add_partial_sums<T, 8, Division>;
                          start_kernel({dim3(adders), dim3(256)}, stream, overlap, add, arguments, work,
                                       tile.bm, tile.bn);
                          static_cast<void>(partial);  // the memory lives as long as the launch
                      },
                  .details = launch_details(
                      kernel, {dim3(grid), dim3(tile.threads()), static_cast<std::size_t>(shared_bytes)})};
    launch.details.insert(
        launch.details.begin(),
        {{"tile", std::to_string(tile.bm) + "x" + std::to_string(tile.bn) + "x" + std::to_string(tile.bk)},
         {"stages", std::to_string(tile.stages)},
         {"shared_tiles", std::to_string(divided.shared)},
         {"partial_sums", std::to_string(divided.slots)}});
    launch.workspace_bytes = partial->bytes();
    return launch;
}

}  // namespace gpumat::multiply::gpu
