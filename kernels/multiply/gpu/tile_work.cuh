#pragma once

// What the two kernels of the level `pipelined` share: how blocks and threads divide C, what becomes of the
// sums, and the launch.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/gpu/tuning.hpp"
#include "kernels/multiply/gpu/vectors.cuh"

namespace gpumat::multiply::gpu {

/// How the grid covers C; see Schedule. Blocks of one group share `group` rows of tiles, so that the tiles
/// that are worked on together read few rows of A and columns of B, which stay in the L2 cache.
template <class T>
struct Work {
    int tiles_m;
    int tiles_n;
    int group;
    std::int64_t whole;
    int splits;
    std::int64_t k_per_split;  ///< a multiple of the tile's depth
    Sum<T>* partial;           ///< (tiles − whole) × splits tiles of sums

    struct Corner {
        int m, n;
    };
    /// The tile's row and column among the tiles.
    __device__ Corner corner(std::int64_t tile) const {
        const auto index = static_cast<unsigned>(tile);
        const unsigned per_group = static_cast<unsigned>(group) * static_cast<unsigned>(tiles_n);
        const unsigned first = index / per_group * static_cast<unsigned>(group);
        const unsigned rows = min(static_cast<unsigned>(tiles_m) - first, static_cast<unsigned>(group));
        const unsigned rest = index % per_group;
        return {static_cast<int>(first + rest % rows), static_cast<int>(rest / rows)};
    }
};

/// Whether rows of C and D can be accessed in vectors of kVector<T> elements.
template <class T>
__device__ inline bool writes_vectors(const Arguments<T>& p) {
    constexpr auto kBytes = kVector<T> * sizeof(T);
    return p.n % kVector<T> == 0 && reinterpret_cast<std::uintptr_t>(p.c) % kBytes == 0 &&
           reinterpret_cast<std::uintptr_t>(p.d) % kBytes == 0;
}

/// kCount consecutive elements of a row of C, of which those inside the matrix are written.
template <class T, int kCount>
__device__ inline void finish_vector(const Arguments<T>& p, bool aligned, std::int64_t i, std::int64_t j,
                                     const Sum<T> (&sums)[kCount]) {
    const std::int64_t offset = i * p.n + j;
    if (aligned && j + kCount <= p.n) {
        Vector<T, kCount> d{};
        if (p.d != nullptr) d = *reinterpret_cast<const Vector<T, kCount>*>(p.d + offset);
        Vector<T, kCount> c;
        for (int e = 0; e < kCount; ++e) {
            Sum<T> result = multiply_add(p.alpha, sums[e], Sum<T>{});
            if (p.d != nullptr) result = multiply_add(p.beta, to_sum(d.at[e]), result);
            c.at[e] = from_sum<T>(result);
        }
        *reinterpret_cast<Vector<T, kCount>*>(p.c + offset) = c;
    } else {
        for (int e = 0; e < kCount; ++e) {
            if (j + e < p.n) p.finish(offset + e, sums[e]);
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
    static_assert(kTile.bk % 2 == 0, "fragments alternate between two buffers");
    static_assert(kTile.stages >= 2, "one stage is filled while another is used");
    return true;
}

/// What a block computes: the corner of a tile of C, and which k of it.
struct Part {
    std::int64_t i0, j0;
    std::int64_t k_begin, k_end;

    template <class T>
    __device__ Part(const Arguments<T>& p, const Work<T>& work, Tile t) : k_begin(0), k_end(p.k) {
        std::int64_t tile = blockIdx.x;
        if (tile >= work.whole) {
            const std::int64_t part = tile - work.whole;
            tile = work.whole + part / work.splits;
            k_begin = part % work.splits * work.k_per_split;
            k_end = min(p.k, k_begin + work.k_per_split);
        }
        const auto corner = work.corner(tile);
        i0 = std::int64_t{corner.m} * t.bm;
        j0 = std::int64_t{corner.n} * t.bn;
    }

    /// The stages of that depth.
    __device__ unsigned steps(int depth) const {
        return k_end > k_begin ? static_cast<unsigned>(divide_up<std::int64_t>(k_end - k_begin, depth)) : 0;
    }
};

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

/// Writes a thread's sums: to C, or where the tile is split along k, to the block's place among the parts.
template <class T, Tile kTile, int kGroupA>
__device__ inline void write_sums(const Arguments<T>& p, const Work<T>& work, const Part& part,
                                  const ThreadPlace<T, kTile, kGroupA>& place,
                                  const Sum<T> (&sums)[kTile.tm][kTile.tn]) {
    using S = Sum<T>;
    constexpr int kV = kVector<T>;
    const bool partial = blockIdx.x >= work.whole && work.splits > 1;
    S* const slot = partial ? work.partial + (blockIdx.x - work.whole) * (kTile.bm * kTile.bn) : nullptr;
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
            } else if (part.i0 + row < p.m) {
                finish_vector(p, aligned, part.i0 + row, part.j0 + col, group);
            }
        }
    }
}

/// Adds up the partial sums of split tiles: 256 threads for 256 / kTogether vectors of elements of one tile;
/// thread (x, y) adds the splits y, y + kTogether … of vector x, then the kTogether sums are added in order.
template <class T, int kTogether>
__global__ void __launch_bounds__(256) add_partial_sums(Arguments<T> p, Work<T> work, int bm, int bn) {
    using S = Sum<T>;
    constexpr int kV = kVector<T>;
    constexpr int kVectors = 256 / kTogether;
    __shared__ Vector<S, kV> shared[kTogether][kVectors];
    const int x = static_cast<int>(threadIdx.x) % kVectors;
    const int y = static_cast<int>(threadIdx.x) / kVectors;
    const int area = bm * bn;
    const int blocks_per_tile = area / (kVectors * kV);
    const std::int64_t index = blockIdx.x / blocks_per_tile;
    const int element = (static_cast<int>(blockIdx.x % blocks_per_tile) * kVectors + x) * kV;
    const auto corner = work.corner(work.whole + index);
    const std::int64_t i = std::int64_t{corner.m} * bm + element / bn;
    const std::int64_t j = std::int64_t{corner.n} * bn + element % bn;

    const S* const partial = work.partial + index * work.splits * area + element;
    Vector<S, kV> sums{};
    if (i < p.m && j < p.n) {
#pragma unroll 4
        for (int split = y; split < work.splits; split += kTogether) {
            const auto part =
                *reinterpret_cast<const Vector<S, kV>*>(partial + static_cast<std::int64_t>(split) * area);
            for (int e = 0; e < kV; ++e) sums.at[e] = sums.at[e] + part.at[e];
        }
    }
    shared[y][x] = sums;
    __syncthreads();  // every part is there
    if (y == 0 && i < p.m) {
        for (int other = 1; other < kTogether; ++other) {
            for (int e = 0; e < kV; ++e) sums.at[e] = sums.at[e] + shared[other][x].at[e];
        }
        finish_vector(p, writes_vectors(p), i, j, sums.at);
    }
}

/// The launch of a kernel that computes tiles by that schedule. `start(grid, work, stream)` starts the
/// kernel, and what must come before it.
template <class T, Tile kTile, class Start>
Launch launch_tiles(const Problem& problem, const Arguments<T>& arguments, const Device& device,
                    const Schedule& schedule, const void* kernel, int shared_bytes, Start start) {
    const auto tiles_m = static_cast<int>(divide_up<std::int64_t>(problem.m, kTile.bm));
    const auto tiles_n = static_cast<int>(divide_up<std::int64_t>(problem.n, kTile.bn));
    const std::int64_t split_tiles = std::int64_t{tiles_m} * tiles_n - schedule.whole;
    const std::int64_t parts = split_tiles * schedule.splits;
    const std::int64_t steps = divide_up<std::int64_t>(problem.k, kTile.bk);

    // Tiles under way at once cover about as many rows of A as columns of B.
    const double at_once = device.gpu->info().multiprocessors * kTile.resident;
    const int square = static_cast<int>(std::sqrt(at_once * kTile.bn / kTile.bm) + 0.5);
    auto partial = std::make_shared<DeviceMemory>(
        device.gpu->allocate(static_cast<std::size_t>(parts) * kTile.bm * kTile.bn * sizeof(Sum<T>)));
    const Work<T> work{.tiles_m = tiles_m,
                       .tiles_n = tiles_n,
                       .group = std::clamp(square, 1, tiles_m),
                       .whole = schedule.whole,
                       .splits = schedule.splits,
                       .k_per_split = divide_up<std::int64_t>(steps, schedule.splits) * kTile.bk,
                       .partial = static_cast<Sum<T>*>(partial->data())};
    allow_shared_memory(kernel, static_cast<std::size_t>(shared_bytes));
    const auto grid = static_cast<unsigned>(schedule.whole + parts);
    // Many splits are shared by 8 threads, few are added by one.
    const int together = schedule.splits > 8 ? 8 : 1;
    const auto adders =
        static_cast<unsigned>(split_tiles * (kTile.bm * kTile.bn * together / (256 * kVector<T>)));
    static_assert(kTile.bm * kTile.bn % (256 * kVector<T>) == 0, "blocks that add up cover whole tiles");
    Launch launch{.level = "pipelined",
                  .run =
                      [=, stream = stream_of(device)] {
                          start(grid, work, stream);
                          GPUMAT_CUDA(cudaGetLastError());
                          if (adders == 0) return;
                          const auto add = together == 1 ? add_partial_sums<T, 1> : add_partial_sums<T, 8>;
                          add<<<adders, 256, 0, stream>>>(arguments, work, kTile.bm, kTile.bn);
                          GPUMAT_CUDA(cudaGetLastError());
                          static_cast<void>(partial);  // the memory lives as long as the launch
                      },
                  .details = launch_details(
                      kernel, {dim3(grid), dim3(kTile.threads()), static_cast<std::size_t>(shared_bytes)})};
    launch.details.insert(
        launch.details.begin(),
        {{"tile", std::to_string(kTile.bm) + "x" + std::to_string(kTile.bn) + "x" + std::to_string(kTile.bk)},
         {"stages", std::to_string(kTile.stages)},
         {"splits", std::to_string(schedule.splits)},
         {"split_tiles", std::to_string(split_tiles)}});
    launch.workspace_bytes = partial->bytes();
    return launch;
}

}  // namespace gpumat::multiply::gpu
