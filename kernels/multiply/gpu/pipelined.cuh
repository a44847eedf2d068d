#pragma once

// The kernel of the level `pipelined`; pipelined.cu describes the level.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/multiply/gpu/loader.cuh"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/gpu/tuning.hpp"

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

template <class T, class TileOf, Load kLoadA, Load kLoadB>
struct PipelinedShape {
    static constexpr Tile kTile = TileOf::kTile;
    static constexpr int kPitchA = pitch<T>(kTile.bm, kLoadA);
    static constexpr int kPitchB = pitch<T>(kTile.bn, kLoadB);
    static constexpr int kStage = kTile.bk * (kPitchA + kPitchB);  // elements of one stage
    static constexpr int kSharedBytes = kTile.stages * kStage * static_cast<int>(sizeof(Sum<T>));
};

/// One block computes one tile of C, or a part of its sums. Thread tiles are made of 16-byte groups that lie
/// lanes apart, so that a warp reads whole rows of shared memory.
template <class T, class TileOf, Load kLoadA, Load kLoadB>
__global__ void __launch_bounds__(TileOf::kTile.threads(), TileOf::kTile.resident)
    pipelined(const __grid_constant__ Arguments<T> p, const __grid_constant__ Work<T> work) {
    using S = Sum<T>;
    using Shape = PipelinedShape<T, TileOf, kLoadA, kLoadB>;
    constexpr Tile kTile = TileOf::kTile;
    constexpr int kV = kVector<T>;
    constexpr int kLanesM = kTile.lanes_m;
    constexpr int kLanesN = 32 / kLanesM;
    constexpr int kWarpsN = kTile.bn / kTile.warp_n();
    static_assert(kTile.bm % kTile.warp_m() == 0 && kTile.bn % kTile.warp_n() == 0, "warps tile the block");
    static_assert(kTile.threads() == kTile.bm / kTile.warp_m() * kWarpsN * 32, "every warp has a tile");
    static_assert(kTile.tm % kV == 0 && kTile.tn % kV == 0, "thread tiles are whole vectors");
    static_assert(kTile.bk % 2 == 0, "fragments alternate between two buffers");
    static_assert(kTile.stages >= 2, "one stage is filled while another is used");

    extern __shared__ __align__(16) unsigned char storage[];
    S* const stages = reinterpret_cast<S*>(storage);

    // What this block computes: a tile of C, and which k of it.
    std::int64_t tile = blockIdx.x;
    std::int64_t k_begin = 0;
    std::int64_t k_end = p.k;
    if (tile >= work.whole) {
        const std::int64_t part = tile - work.whole;
        tile = work.whole + part / work.splits;
        k_begin = part % work.splits * work.k_per_split;
        k_end = min(p.k, k_begin + work.k_per_split);
    }
    const auto corner = work.corner(tile);
    const std::int64_t i0 = std::int64_t{corner.m} * kTile.bm;
    const std::int64_t j0 = std::int64_t{corner.n} * kTile.bn;

    // This thread's place: neighbouring lanes alternate between two rows (columns), so that the 16-byte
    // reads of a half-warp fall on 128 bytes or fewer.
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
    const int thread_m = warp / kWarpsN * kTile.warp_m() + lane_m * kV;
    const int thread_n = warp % kWarpsN * kTile.warp_n() + lane_n * kV;

    Loader<T, kTile.bm, kTile.bk, kTile.threads(), kLoadA> load_a(p.a, i0, p.m, k_begin);
    const Strided<T> b_by_column{p.b.data, p.b.col, p.b.row};
    Loader<T, kTile.bn, kTile.bk, kTile.threads(), kLoadB> load_b(b_by_column, j0, p.n, k_begin);

    Remaining to_load(k_end - k_begin, kTile.bk);
    for (int stage = 0; stage < kTile.stages - 1; ++stage) {
        const int depth = to_load.next(kTile.bk);
        load_a.begin(stages + stage * Shape::kStage, depth);
        load_b.begin(stages + stage * Shape::kStage + kTile.bk * Shape::kPitchA, depth);
#pragma unroll
        for (int k = 0; k < kTile.bk; ++k) {
            load_a.step(k);
            load_b.step(k);
        }
#if GPUMAT_HAS_ASYNC_COPY
        commit_copies();
#endif
    }
#if GPUMAT_HAS_ASYNC_COPY
    wait_copies<kTile.stages - 2>();
#endif
    __syncthreads();  // the first stage is complete

    S sums[kTile.tm][kTile.tn] = {};
    S a[2][kTile.tm];
    S b[2][kTile.tn];
    const auto read = [&](int buffer, const S* a_row, const S* b_row) {
#pragma unroll
        for (int g = 0; g < kTile.tm / kV; ++g) {
            S v[kV];
            read_vector(v, a_row + g * kLanesM * kV);
#pragma unroll
            for (int e = 0; e < kV; ++e) a[buffer][g * kV + e] = v[e];
        }
#pragma unroll
        for (int g = 0; g < kTile.tn / kV; ++g) {
            S v[kV];
            read_vector(v, b_row + g * kLanesN * kV);
#pragma unroll
            for (int e = 0; e < kV; ++e) b[buffer][g * kV + e] = v[e];
        }
    };

    const unsigned steps =
        k_end > k_begin ? static_cast<unsigned>(divide_up<std::int64_t>(k_end - k_begin, kTile.bk)) : 0;
    constexpr int kLastStage = (kTile.stages - 1) * Shape::kStage;
    int read_at = 0;  // the stage that is used, and the one that is filled, as offsets
    int write_at = kLastStage;
    const S* a_now = stages + thread_m;
    const S* b_now = stages + kTile.bk * Shape::kPitchA + thread_n;
    read(0, a_now, b_now);
    for (unsigned left = steps; left != 0; --left) {
        const int depth = to_load.next(kTile.bk);
        load_a.begin(stages + write_at, depth);
        load_b.begin(stages + write_at + kTile.bk * Shape::kPitchA, depth);
        write_at = read_at;  // free once this stage is used up
#pragma unroll
        for (int k = 0; k < kTile.bk; ++k) {
            load_a.step(k);
            load_b.step(k);
            if (k + 1 == kTile.bk) {
#if GPUMAT_HAS_ASYNC_COPY
                commit_copies();
                wait_copies<kTile.stages - 2>();
#endif
                __syncthreads();  // the next stage is complete, and nobody reads this one any more
                read_at = read_at == kLastStage ? 0 : read_at + Shape::kStage;
                a_now = stages + read_at + thread_m;
                b_now = stages + read_at + kTile.bk * Shape::kPitchA + thread_n;
                read((k + 1) % 2, a_now, b_now);
            } else {
                read((k + 1) % 2, a_now + (k + 1) * Shape::kPitchA, b_now + (k + 1) * Shape::kPitchB);
            }
            // Back and forth along a: each multiply-add but the sum takes one new operand, and the other from
            // the register file's reuse cache. Two reads a clock is all that its two banks can give.
#pragma unroll
            for (int j = 0; j < kTile.tn; ++j) {
#pragma unroll
                for (int step = 0; step < kTile.tm; ++step) {
                    const int i = j % 2 == 0 ? step : kTile.tm - 1 - step;
                    sums[i][j] = multiply_add(a[k % 2][i], b[k % 2][j], sums[i][j]);
                }
            }
        }
    }

    const bool partial = blockIdx.x >= work.whole && work.splits > 1;
    S* const slot = partial ? work.partial + (blockIdx.x - work.whole) * (kTile.bm * kTile.bn) : nullptr;
    const bool aligned = writes_vectors(p);
#pragma unroll
    for (int i = 0; i < kTile.tm; ++i) {
        const int row = thread_m + i / kV * kLanesM * kV + i % kV;
#pragma unroll
        for (int g = 0; g < kTile.tn / kV; ++g) {
            const int col = thread_n + g * kLanesN * kV;
            S group[kV];
#pragma unroll
            for (int e = 0; e < kV; ++e) group[e] = sums[i][g * kV + e];
            if (partial) {
                *reinterpret_cast<Vector<S, kV>*>(slot + row * kTile.bn + col) =
                    *reinterpret_cast<const Vector<S, kV>*>(group);
            } else if (i0 + row < p.m) {
                finish_vector(p, aligned, i0 + row, j0 + col, group);
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

/// How the operand can be loaded: the quickest way that its layout and alignment allow.
template <class T>
Load load_for(const Strided<T>& from) {
    constexpr auto kBytes = kVector<T> * sizeof(T);
    if (reinterpret_cast<std::uintptr_t>(from.data) % kBytes != 0) return Load::element;
    if (from.row == 1 && from.col % kVector<T> == 0) return Load::vector;
    if (from.col == 1 && from.row % kVector<T> == 0) return Load::along_k;
    return Load::element;
}

/// Prepares the launch of one tile shape with one schedule. `problem` has at least one element of C.
template <class T, Tile kTile, Load kLoadA, Load kLoadB>
Launch prepare_pipelined_tile(const Problem& problem, const Operands& operands, const Device& device,
                              const Schedule& schedule) {
    constexpr auto kKernel = pipelined<T, TypeOf<kTile>, kLoadA, kLoadB>;
    constexpr int kSharedBytes = PipelinedShape<T, TypeOf<kTile>, kLoadA, kLoadB>::kSharedBytes;
    const Arguments<T> arguments(problem, operands);
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
    allow_shared_memory(reinterpret_cast<const void*>(kKernel), kSharedBytes);
    const dim3 block(kTile.threads());
    const auto grid = static_cast<unsigned>(schedule.whole + parts);
    // Many splits are shared by 8 threads, few are added by one.
    const int together = schedule.splits > 8 ? 8 : 1;
    const auto adders =
        static_cast<unsigned>(split_tiles * (kTile.bm * kTile.bn * together / (256 * kVector<T>)));
    static_assert(kTile.bm * kTile.bn % (256 * kVector<T>) == 0, "blocks that add up cover whole tiles");
    Launch launch{
        .level = "pipelined",
        .run =
            [=, stream = stream_of(device)] {
                kKernel<<<grid, block, kSharedBytes, stream>>>(arguments, work);
                GPUMAT_CUDA(cudaGetLastError());
                if (adders == 0) return;
                const auto add = together == 1 ? add_partial_sums<T, 1> : add_partial_sums<T, 8>;
                add<<<adders, 256, 0, stream>>>(arguments, work, kTile.bm, kTile.bn);
                GPUMAT_CUDA(cudaGetLastError());
                static_cast<void>(partial);  // the memory lives as long as the launch
            },
        .details = launch_details(reinterpret_cast<const void*>(kKernel), {grid, block, kSharedBytes})};
    launch.details.insert(
        launch.details.begin(),
        {{"tile", std::to_string(kTile.bm) + "x" + std::to_string(kTile.bn) + "x" + std::to_string(kTile.bk)},
         {"stages", std::to_string(kTile.stages)},
         {"splits", std::to_string(schedule.splits)},
         {"split_tiles", std::to_string(split_tiles)}});
    return launch;
}

/// The same, choosing how the operands are loaded. Pairs that are not compiled are loaded element by element.
template <class T, Tile kTile>
Launch prepare_pipelined_tile(const Problem& problem, const Operands& operands, const Device& device,
                              const Schedule& schedule) {
    const Arguments<T> arguments(problem, operands);
    const Load a = load_for(arguments.a);
    const Load b = load_for(Strided<T>{arguments.b.data, arguments.b.col, arguments.b.row});
    constexpr auto element = Load::element;
    constexpr auto vector = Load::vector;
    constexpr auto along_k = Load::along_k;
    constexpr int kVectors = kTile.bm * kTile.bk / kVector<T>;  // of a tile of A
    if constexpr (sizeof(Sum<T>) == 4 && kVectors % kTile.threads() == 0) {
        if (a == along_k && b == vector) {
            return prepare_pipelined_tile<T, kTile, along_k, vector>(problem, operands, device, schedule);
        }
    } else {
        if (b == vector) {
            return prepare_pipelined_tile<T, kTile, element, vector>(problem, operands, device, schedule);
        }
    }
    return prepare_pipelined_tile<T, kTile, element, element>(problem, operands, device, schedule);
}

/// The same with a tile that is known at run time: entry `plan.tile` of kTiles.
template <class T, const auto& kTiles, std::size_t... kIndices>
Launch prepare_pipelined_plan(const Problem& problem, const Operands& operands, const Device& device,
                              const Plan& plan, std::index_sequence<kIndices...>) {
    Launch launch;
    static_cast<void>(((plan.tile == kIndices && (launch = prepare_pipelined_tile<T, kTiles[kIndices]>(
                                                      problem, operands, device, plan.schedule),
                                                  true)) ||
                       ...));
    return launch;
}

/// Chooses tile and schedule for the shape, and prepares the launch.
template <class T, const auto& kTiles>
Launch prepare_pipelined_as(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.m == 0 || problem.n == 0) return {.level = "pipelined", .run = [] {}};
    const GpuInfo& gpu = device.gpu->info();
    const Plan plan = plan_tiles(kTiles, sizeof(Sum<T>), problem.m, problem.n, problem.k, gpu.multiprocessors,
                                 gpu.shared_bytes_per_block);
    return prepare_pipelined_plan<T, kTiles>(problem, operands, device, plan,
                                             std::make_index_sequence<kTiles.size()>{});
}

}  // namespace gpumat::multiply::gpu
