#pragma once

// The kernel of the level `pipelined` for operands that lie k by k, fed by Hopper's copy engine; pipelined.cu
// describes the level.
#include "kernels/common/named_barrier.cuh"
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
    static constexpr bool kAlongRows = kSize == 4 && kTile.tn > kTile.tm;
    /// Registers of the sums and of two buffers of fragments: beyond so many of 255 the compiler spills.
    static constexpr bool kRolling = kSize == 4 && kTile.tm * kTile.tn + 2 * (kTile.tm + kTile.tn) > 224;
    using ThreadFragments = std::conditional_t<
        kIsComplex<Sum<T>>, PlanarFragments<T, kTile>,
        std::conditional_t<kRolling, RollingFragments<T, kTile>, Fragments<T, kTile, kAlongRows>>>;
    /// How many k the inner loop has one after the other: an even number, as fragments alternate between two
    /// buffers, and few: more code than the instruction caches hold is slow, the more so as warps are not at
    /// the same place in it. But in so short a loop the compiler does not always find registers that
    /// fragments can stay in, and that do not collide. All measured.
    static constexpr int kUnrolled = kAlongRows                    ? 4
                                     : sizeof(RealOf<Sum<T>>) == 4 ? 2
                                     : kIsComplex<Sum<T>>          ? 4
                                                                   : 8;
};

/// The same value, in a register: the compiler cannot compute it again in every step instead, where reads of
/// shared memory would wait for it.
__device__ inline std::uint32_t keep(std::uint32_t value) {
    return __shfl_sync(0xffffffffU, value, static_cast<int>(threadIdx.x % 32));
}

/// One block computes tiles of C, or parts of their sums, one after the other. Its warps take turns at having
/// the copy engine for the tiles of A and B, some stages ahead; nobody computes an address or checks a bound.
/// Nor does anybody wait for a warp that is busy asking: warps say that they have used up a stage, and go on;
/// only the one that is to fill it again, some stages later, waits until all have.
template <class T, class TileOf>
__global__ void __launch_bounds__(TileOf::kTile.threads(), TileOf::kTile.resident)
    packed(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
           const __grid_constant__ Arguments<T> p, const __grid_constant__ Work<T, ShareTiles> work) {
    using S = Sum<T>;
    constexpr Tile kTile = TileOf::kTile;
    using Shape = PackedShape<T, kTile>;
    static_assert(tile_fits_threads<T, kTile>());
    constexpr int kWordsA = Shape::kPartsA / 4;  // 32-bit words of what lies side by side
    constexpr int kWordsB = Shape::kSize / 4;
    static_assert(kTile.bm * kWordsA <= 256 && kTile.bn * kWordsB <= 256, "boxes are that wide");
    static_assert(kTile.bk * LayoutA<T>::kRows <= 256, "and that high");
    static_assert(Shape::kBytesA % 128 == 0 && Shape::kStageBytes % 128 == 0, "boxes start at 128 bytes");
    static_assert(kTile.stages < 16, "a named barrier for each stage, beside that of __syncthreads");
    constexpr int kStages = kTile.stages;
    constexpr int kLead = kStages / 2;  // stages that are filled ahead of the one that is used
    constexpr int kThreads = kTile.threads();
    constexpr int kWarps = kThreads / 32;
    constexpr int kUnrolled = Shape::kUnrolled;
    static_assert(kTile.bk % kUnrolled == 0, "whole iterations of the loop");

    extern __shared__ __align__(128) unsigned char packed_storage[];
    __shared__ std::uint64_t barriers[kStages];
    const std::uint32_t stages = shared_address(packed_storage);
    const std::uint32_t full = shared_address(barriers);
    using Fragments = typename Shape::ThreadFragments;
    const typename Fragments::Place place;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const bool first_lane = threadIdx.x % 32 == 0;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) init_barrier(full + stage * Shape::kBarrierBytes, 1);
        publish_barriers();
    }

    const std::uint32_t full_kept = keep(full);
    const std::uint32_t a_first = keep(stages + place.m * Shape::kPartsA);
    const std::uint32_t b_first = keep(stages + Shape::kBytesA + place.n * Shape::kSize);
    int stage = 0;  // the stage that is used
    std::uint32_t now = 0;
    unsigned parity = 0;
    SharedParts parts(work.division);
    for (Part<int> part; parts.next(work.tiles, work.division, kTile, part);) {
        const int steps = part.steps;
        const auto fill = [&](int step, int at) {
            const int k = (part.first + step) * kTile.bk;
            const std::uint32_t to = stages + at * Shape::kStageBytes;
            const std::uint32_t barrier = full + at * Shape::kBarrierBytes;
            arrive_expecting(barrier, Shape::kStageBytes);
            load_box_async(to, &map_a, part.i0 * kWordsA, k * LayoutA<T>::kRows, barrier);
            load_box_async(to + Shape::kBytesA, &map_b, part.j0 * kWordsB, k, barrier);
        };
        __syncthreads();  // everyone sees the barriers, and has used up all stages
        if (threadIdx.x == 0) {
            publish_shared();
            for (int step = 0; step < kLead && step < steps; ++step) fill(step, (stage + step) % kStages);
        }
        S sums[kTile.tm][kTile.tn] = {};
        Fragments fragments;
        for (int step = 0; step < steps; ++step) {
            if (warp == step % kWarps && step + kLead < steps) {
                const int refilled = stage + kLead < kStages ? stage + kLead : stage + kLead - kStages;
                if (step + kLead >= kStages) sync_at<kThreads>(1 + refilled);
                if (first_lane) {
                    publish_shared();
                    fill(step + kLead, refilled);
                }
            }
            const int used = stage;
            const unsigned used_parity = parity;
            const bool last_stage = stage + 1 == kStages;
            const std::uint32_t next = last_stage ? 0 : now + Shape::kStageBytes;
            stage = last_stage ? 0 : stage + 1;
            parity = last_stage ? parity ^ 1 : parity;
            // Read here, where every step comes by, and not ahead of the loop: then the compiler finds
            // registers for the fragments that need not be moved.
            if (step == 0) {
                wait_barrier(full_kept + used * Shape::kBarrierBytes, used_parity);
                fragments.start({b_first + now, a_first + now});
            }
            Rows rows{b_first + now, a_first + now};
#pragma unroll 1
            for (int left = kTile.bk / kUnrolled - 1; left != 0; --left) {
                const auto next_rows = [&] { return rows.after<Shape>(kUnrolled); };
                fragments.template iterate<Shape>(rows, next_rows, sums);
                rows = next_rows();
            }
            const auto next_stage = [&] {
                if (step + 1 < steps) wait_barrier(full_kept + stage * Shape::kBarrierBytes, parity);
                // After the last step this is read as it is, and nobody uses it.
                return Rows{b_first + next, a_first + next};
            };
            fragments.template iterate<Shape>(rows, next_stage, sums);
            const bool used_again = step + kStages < steps;
            if (used_again && warp != (step + kStages - kLead) % kWarps) arrive_at<kThreads>(1 + used);
            now = next;
        }
        write_sums<T, kTile>(p, work.partial, part, place, sums);
    }
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
                           const Share& share) {
    using Shape = PackedShape<T, kTile>;
    constexpr auto kKernel = packed<T, TypeOf<kTile>>;
    const Arguments<T> arguments(problem, operands);
    const PackedOperand<T, LayoutA<T>> a(arguments.a, problem.m, problem.k, device);
    const PackedOperand<T, LayoutB<T>> b(arguments.b_by_column(), problem.n, problem.k, device);
    const CUtensorMap map_a = a.map(problem.m, problem.k, kTile.bm, kTile.bk);
    const CUtensorMap map_b = b.map(problem.n, problem.k, kTile.bn, kTile.bk);
    Launch launch = launch_tiles<T>(
        "pipelined", kTile, problem, arguments, device, share, reinterpret_cast<const void*>(kKernel),
        Shape::kSharedBytes, [=](unsigned grid, const Work<T, ShareTiles>& work, cudaStream_t stream) {
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
                           const Plan<Share>& plan, std::index_sequence<kIndices...>) {
    Launch launch;
    static_cast<void>(((plan.tile == kIndices && (launch = prepare_packed_tile<T, kTiles[kIndices]>(
                                                      problem, operands, device, plan.schedule),
                                                  true)) ||
                       ...));
    return launch;
}

}  // namespace gpumat::multiply::gpu
