#pragma once

// The kernel of the level `pipelined` for operands as they lie in memory; pipelined.cu describes the level.
#include "kernels/multiply/gpu/fragments.cuh"
#include "kernels/multiply/gpu/loader.cuh"

namespace gpumat::multiply::gpu {

template <class T, class TileOf, Load kLoadA, Load kLoadB>
struct PipelinedShape {
    static constexpr Tile kTile = TileOf::kTile;
    static constexpr int kPitchA = pitch<T>(kTile.bm, kLoadA);
    static constexpr int kPitchB = pitch<T>(kTile.bn, kLoadB);
    static constexpr int kStage = kTile.bk * (kPitchA + kPitchB);  // elements of one stage
    static constexpr int kSize = static_cast<int>(sizeof(Sum<T>));
    static constexpr int kSharedBytes = kTile.stages * kStage * kSize;
};

/// One block computes one tile of C, or a part of its sums.
template <class T, class TileOf, Load kLoadA, Load kLoadB>
__global__ void __launch_bounds__(TileOf::kTile.threads(), TileOf::kTile.resident)
    pipelined(const __grid_constant__ Arguments<T> p, const __grid_constant__ Work<T, SplitTiles> work) {
    using S = Sum<T>;
    using Shape = PipelinedShape<T, TileOf, kLoadA, kLoadB>;
    constexpr Tile kTile = TileOf::kTile;
    static_assert(tile_fits_threads<T, kTile>());

    extern __shared__ __align__(16) unsigned char storage[];
    S* const stages = reinterpret_cast<S*>(storage);
    const Part<std::int64_t> part = work.division.part(work.tiles, kTile);
    const std::int64_t k_begin = part.first * kTile.bk;
    const ThreadPlace<T, kTile> place;

    Loader<T, kTile.bm, kTile.bk, kTile.threads(), kLoadA> load_a(p.a, part.i0, p.m, k_begin);
    const Strided<T> b_by_column{p.b.data, p.b.col, p.b.row};
    Loader<T, kTile.bn, kTile.bk, kTile.threads(), kLoadB> load_b(b_by_column, part.j0, p.n, k_begin);

    Remaining to_load(max(std::int64_t{0}, min(p.k - k_begin, part.steps * kTile.bk)), kTile.bk);
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
    Fragments<T, kTile> fragments;
    constexpr int kLastStage = (kTile.stages - 1) * Shape::kStage;
    int read_at = 0;  // the stage that is used, and the one that is filled, as offsets
    int write_at = kLastStage;
    const std::uint32_t a_first = shared_address(stages + place.m);
    const std::uint32_t b_first = shared_address(stages + kTile.bk * Shape::kPitchA + place.n);
    std::uint32_t a_now = a_first;
    std::uint32_t b_now = b_first;
    fragments.read(0, {b_now, a_now});
    for (auto left = static_cast<unsigned>(part.steps); left != 0; --left) {
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
                a_now = a_first + read_at * Shape::kSize;
                b_now = b_first + read_at * Shape::kSize;
                fragments.read((k + 1) % 2, {b_now, a_now});
            } else {
                fragments.read((k + 1) % 2, {b_now + (k + 1) * Shape::kPitchB * Shape::kSize,
                                             a_now + (k + 1) * Shape::kPitchA * Shape::kSize});
            }
            fragments.multiply(k % 2, sums);
        }
    }
    write_sums<T, kTile>(p, work.partial, part, place, sums);
}

/// How the operand, `rows` × `depth` in k, can be loaded: the quickest way that its layout and alignment
/// allow. Vectors never reach beyond a row, where there may be a gap that holds anything.
template <class T>
Load load_for(const Strided<T>& from, std::int64_t rows, std::int64_t depth) {
    constexpr auto kBytes = kVector<T> * sizeof(T);
    if (reinterpret_cast<std::uintptr_t>(from.data) % kBytes != 0) return Load::element;
    if (from.row == 1 && from.col % kVector<T> == 0 && rows % kVector<T> == 0) return Load::vector;
    if (from.col == 1 && from.row % kVector<T> == 0 && depth % kVector<T> == 0) return Load::along_k;
    return Load::element;
}

/// Prepares the launch of one tile shape with one schedule. `problem` has at least one element of C.
template <class T, Tile kTile, Load kLoadA, Load kLoadB>
Launch prepare_pipelined_tile(const Problem& problem, const Operands& operands, const Device& device,
                              const Split& split) {
    constexpr auto kKernel = pipelined<T, TypeOf<kTile>, kLoadA, kLoadB>;
    constexpr int kSharedBytes = PipelinedShape<T, TypeOf<kTile>, kLoadA, kLoadB>::kSharedBytes;
    const Arguments<T> arguments(problem, operands);
    return launch_tiles<T>("pipelined", kTile, problem, arguments, device, split,
                           reinterpret_cast<const void*>(kKernel), kSharedBytes,
                           [=](unsigned grid, const Work<T, SplitTiles>& work, cudaStream_t stream) {
                               kKernel<<<grid, kTile.threads(), kSharedBytes, stream>>>(arguments, work);
                           });
}

/// The same, choosing how the operands are loaded. Pairs that are not compiled are loaded element by element.
template <class T, Tile kTile>
Launch prepare_pipelined_tile(const Problem& problem, const Operands& operands, const Device& device,
                              const Split& split) {
    const Arguments<T> arguments(problem, operands);
    const Load a = load_for(arguments.a, problem.m, problem.k);
    const Load b = load_for(arguments.b_by_column(), problem.n, problem.k);
    constexpr auto element = Load::element;
    constexpr auto vector = Load::vector;
    constexpr auto along_k = Load::along_k;
    constexpr int kVectors = kTile.bm * kTile.bk / kVector<T>;  // of a tile of A
    if constexpr (sizeof(Sum<T>) == 4 && kVectors % kTile.threads() == 0) {
        if (a == along_k && b == vector) {
            return prepare_pipelined_tile<T, kTile, along_k, vector>(problem, operands, device, split);
        }
    } else {
        if (b == vector) {
            return prepare_pipelined_tile<T, kTile, element, vector>(problem, operands, device, split);
        }
    }
    return prepare_pipelined_tile<T, kTile, element, element>(problem, operands, device, split);
}

/// The same with a tile that is known at run time: entry `plan.tile` of kTiles.
template <class T, const auto& kTiles, std::size_t... kIndices>
Launch prepare_pipelined_plan(const Problem& problem, const Operands& operands, const Device& device,
                              const Plan<Split>& plan, std::index_sequence<kIndices...>) {
    Launch launch;
    static_cast<void>(((plan.tile == kIndices && (launch = prepare_pipelined_tile<T, kTiles[kIndices]>(
                                                      problem, operands, device, plan.schedule),
                                                  true)) ||
                       ...));
    return launch;
}

}  // namespace gpumat::multiply::gpu
