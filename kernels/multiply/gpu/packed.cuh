#pragma once

// The kernel of the level `pipelined` for operands that lie k by k, fed by Hopper's copy engine; pipelined.cu
// describes the level.
#include "kernels/common/tma.cuh"
#include "kernels/multiply/gpu/fragments.cuh"
#include "kernels/multiply/gpu/pack.cuh"

namespace gpumat::multiply::gpu {

/// How the operands lie. A is in planes, which costs nothing where it has to be packed anyway, as it mostly
/// has; B's parts find their place in the reuse cache however they lie.
template <class T>
using LayoutA = Planes<Sum<T>>;
template <class T>
using LayoutB = Whole<Sum<T>>;

template <class T, Tile kTile>
struct PackedShape {
    static constexpr int kSize = static_cast<int>(sizeof(Sum<T>));
    static constexpr int kPartsA = static_cast<int>(sizeof(typename LayoutA<T>::Element));  // bytes
    static constexpr int kRowA = kTile.bm * kSize;  // bytes of one k of a tile
    static constexpr int kRowB = kTile.bn * kSize;
    static constexpr int kBytesA = kTile.bk * kRowA;  // of a stage
    static constexpr int kStageBytes = kBytesA + kTile.bk * kRowB;
    static constexpr int kSharedBytes = kTile.stages * kStageBytes;
    static constexpr int kBarrierBytes = 8;
    using Parts = std::conditional_t<kIsComplex<Sum<T>>, PlanarFragments<T, kTile>, Fragments<T, kTile>>;
};

/// The same value, in a register: the compiler cannot compute it again in every step instead, where reads of
/// shared memory would wait for it.
__device__ inline std::uint32_t keep(std::uint32_t value) {
    return __shfl_sync(0xffffffffU, value, static_cast<int>(threadIdx.x % 32));
}

/// One block computes one tile of C, or a part of its sums. One of its threads asks the copy engine for the
/// tiles of A and B, some stages ahead; nobody computes an address or checks a bound.
template <class T, class TileOf>
__global__ void __launch_bounds__(TileOf::kTile.threads(), TileOf::kTile.resident)
    packed(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
           const __grid_constant__ Arguments<T> p, const __grid_constant__ Work<T> work) {
    using S = Sum<T>;
    constexpr Tile kTile = TileOf::kTile;
    using Shape = PackedShape<T, kTile>;
    static_assert(tile_fits_threads<T, kTile>());
    constexpr int kWordsA = Shape::kPartsA / 4;  // 32-bit words of what lies side by side
    constexpr int kWordsB = Shape::kSize / 4;
    static_assert(kTile.bm * kWordsA <= 256 && kTile.bn * kWordsB <= 256, "boxes are that wide");

    extern __shared__ __align__(128) unsigned char packed_storage[];
    __shared__ std::uint64_t barriers[kTile.stages];
    const std::uint32_t stages = shared_address(packed_storage);
    const std::uint32_t full = shared_address(barriers);
    const Part part(p, work, kTile);
    using Fragments = typename Shape::Parts;
    const typename Fragments::Place place;
    const unsigned steps = part.steps(kTile.bk);

    const bool copies = threadIdx.x == 0;
    const auto copy = [&](unsigned step, int stage) {
        const auto k = static_cast<int>(part.k_begin) + static_cast<int>(step) * kTile.bk;
        const std::uint32_t to = stages + stage * Shape::kStageBytes;
        const std::uint32_t barrier = full + stage * Shape::kBarrierBytes;
        arrive_expecting(barrier, Shape::kStageBytes);
        load_box_async(to, &map_a, static_cast<int>(part.i0) * kWordsA, k * LayoutA<T>::kRows, barrier);
        load_box_async(to + Shape::kBytesA, &map_b, static_cast<int>(part.j0) * kWordsB, k, barrier);
    };
    if (copies) {
        for (int stage = 0; stage < kTile.stages; ++stage) {
            init_barrier(full + stage * Shape::kBarrierBytes, 1);
        }
        publish_barriers();
        for (int stage = 0; stage < kTile.stages - 1; ++stage) {
            if (static_cast<unsigned>(stage) < steps) copy(static_cast<unsigned>(stage), stage);
        }
    }
    __syncthreads();  // everyone sees the barriers

    S sums[kTile.tm][kTile.tn] = {};
    Fragments fragments;
    const std::uint32_t a_first = keep(stages + place.m * Shape::kPartsA);
    const std::uint32_t b_first = keep(stages + Shape::kBytesA + place.n * Shape::kSize);
    if (steps != 0) {
        wait_barrier(full, 0);
        fragments.read(0, a_first, b_first);
    }
    int stage = 0;  // the stage that is used
    std::uint32_t now = 0;
    unsigned parity = 0;
    for (unsigned step = 0; step < steps; ++step) {
        __syncthreads();  // everyone has used up what was read of the stage before this one
        const unsigned ahead = step + kTile.stages - 1;
        if (copies && ahead < steps) {
            publish_shared();
            copy(ahead, stage == 0 ? kTile.stages - 1 : stage - 1);
        }
        const bool last_stage = stage + 1 == kTile.stages;
        const std::uint32_t next = last_stage ? 0 : now + Shape::kStageBytes;
        stage = last_stage ? 0 : stage + 1;
        parity = last_stage ? parity ^ 1 : parity;
#pragma unroll
        for (int k = 0; k < kTile.bk; ++k) {
            if (k + 1 < kTile.bk) {
                fragments.read((k + 1) % 2, a_first + now + (k + 1) * Shape::kRowA,
                               b_first + now + (k + 1) * Shape::kRowB);
            } else {
                if (step + 1 < steps) wait_barrier(full + stage * Shape::kBarrierBytes, parity);
                // After the last step this reads what is there, and nobody uses it.
                fragments.read(0, a_first + next, b_first + next);
            }
            fragments.multiply(k % 2, sums);
        }
        now = next;
    }
    write_sums<T, kTile>(p, work, part, place, sums);
}

/// Bytes of device memory that packing takes.
template <class T>
std::uint64_t pack_bytes(const Problem& problem, const Arguments<T>& arguments) {
    return pack_bytes<T, LayoutA<T>>(arguments.a, problem.m, problem.k) +
           pack_bytes<T, LayoutB<T>>(arguments.b_by_column(), problem.n, problem.k);
}

/// Prepares the launch of one tile shape with one schedule, packing what must be. `problem` has at least one
/// element of C and of k.
template <class T, Tile kTile>
Launch prepare_packed_tile(const Problem& problem, const Operands& operands, const Device& device,
                           const Schedule& schedule) {
    using Shape = PackedShape<T, kTile>;
    constexpr auto kKernel = packed<T, TypeOf<kTile>>;
    const Arguments<T> arguments(problem, operands);
    const PackedOperand<T, LayoutA<T>> a(arguments.a, problem.m, problem.k, device);
    const PackedOperand<T, LayoutB<T>> b(arguments.b_by_column(), problem.n, problem.k, device);
    const CUtensorMap map_a = a.map(problem.m, problem.k, kTile.bm, kTile.bk);
    const CUtensorMap map_b = b.map(problem.n, problem.k, kTile.bn, kTile.bk);
    Launch launch = launch_tiles<T, kTile>(
        problem, arguments, device, schedule, reinterpret_cast<const void*>(kKernel), Shape::kSharedBytes,
        [=](unsigned grid, const Work<T>& work, cudaStream_t stream) {
            if (a.pack) a.pack(stream);
            if (b.pack) b.pack(stream);
            kKernel<<<grid, kTile.threads(), Shape::kSharedBytes, stream>>>(map_a, map_b, arguments, work);
        });
    const std::string packs = std::string(a.pack ? "A" : "") + (a.pack && b.pack ? " and " : "") +
                              (b.pack   ? "B"
                               : a.pack ? ""
                                        : "none");
    launch.workspace_bytes += pack_bytes<T>(problem, arguments);
    launch.details.insert(launch.details.begin(), {{"copies", "tensor maps"}, {"packs", packs}});
    return launch;
}

/// The same with a tile that is known at run time: entry `plan.tile` of kTiles.
template <class T, const auto& kTiles, std::size_t... kIndices>
Launch prepare_packed_plan(const Problem& problem, const Operands& operands, const Device& device,
                           const Plan& plan, std::index_sequence<kIndices...>) {
    Launch launch;
    static_cast<void>(((plan.tile == kIndices && (launch = prepare_packed_tile<T, kTiles[kIndices]>(
                                                      problem, operands, device, plan.schedule),
                                                  true)) ||
                       ...));
    return launch;
}

}  // namespace gpumat::multiply::gpu
