#pragma once

// The kernel of the level `wgmma`; wgmma.cu describes the level.
#include <algorithm>
#include <numeric>

#include "kernels/common/named_barrier.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/multiply/gpu/matrix_unit.cuh"
#include "kernels/multiply/gpu/vectors.cuh"
#include "kernels/multiply/gpu/wgmma_work.cuh"

namespace gpumat::multiply::gpu {

/// What a kernel is compiled for.
///
/// Rows of operands in shared memory are 128 bytes long. They run along k, or where kAcross is set along m
/// (of A) or n (of B), as the operand lies in memory.
template <class FactorType, class OutType, bool kAcrossAIs, bool kAcrossBIs, int kColumns,
          int kBlocksACluster>
struct WgmmaShape {
    using Factor = FactorType;
    using Out = OutType;
    using Sum = UnitSum<Factor>;
    static constexpr bool kAcrossA = kAcrossAIs;
    static constexpr bool kAcrossB = kAcrossBIs;
    static constexpr int kBm = 128;  // two warpgroups with 64 rows each, which is what an instruction takes
    static constexpr int kBn = kColumns;
    static constexpr int kCluster = kBlocksACluster;  // blocks one above the other that share tiles of B
    static constexpr int kRow =
        128 / static_cast<int>(sizeof(Factor));  // elements of 128 bytes: k of a stage
    static constexpr int kConsumers = 2;
    static constexpr int kThreads = 128 * (1 + kConsumers);

    // A block of a cluster brings so many of the kBn rows of 128 bytes of B's tile, in boxes of which none
    // has parts of two groups of kRow.
    static constexpr int kShareB = kBn / kCluster;
    static constexpr int kBoxB = kAcrossB ? std::gcd(kShareB, kRow) : kShareB;

    static constexpr int kBytesA = kBm * 128;
    static constexpr int kBytesB = kBn * 128;
    static constexpr int kStageBytes = kBytesA + kBytesB;
    static constexpr bool kStaged = sizeof(Out) == 2;  // tiles of C go through shared memory
    static constexpr int kBoxBytes = 64 * 128;         // 64 rows by 64 columns of C
    static constexpr int kBoxes = 2;                   // of a warpgroup: one is filled while the other leaves
    static constexpr int kResultBytes = kStaged ? kConsumers * kBoxes * kBoxBytes : 0;
    static constexpr int kAlignment = 1024;  // of what is swizzled
    static constexpr int kMostBytes = 227 * 1024;
    static constexpr int kBarrierBytes = 256;
    static constexpr int kStages =
        std::min(8, (kMostBytes - kAlignment - kBarrierBytes - kResultBytes) / kStageBytes);
    static constexpr int kSharedBytes = kAlignment + kStages * kStageBytes + kResultBytes + kBarrierBytes;
    static_assert(kStages >= 3);
};

/// What becomes of sums: C = α·sum + β·D.
template <class Sum, class Out>
struct WgmmaResult {
    std::int64_t m, n;
    Sum alpha, beta;
    const Out* d;  ///< null where β = 0
    std::int64_t ldd;
    Out* c;
    std::int64_t ldc;
    Sum* partial;  ///< null: C is written; else splits of m rows of `pitch` sums
    std::int64_t pitch;
    bool by_copies;  ///< the copy engine can write C

    __device__ Sum scaled(Sum sum, std::int64_t i, std::int64_t j) const {
        Sum result = multiply_add(alpha, sum, Sum{});
        if (d != nullptr && i < m && j < n) result = multiply_add(beta, to_sum(d[i * ldd + j]), result);
        return result;
    }
};

/// Memory for the sums of items that follow others, and who is ready: a slot for each warpgroup that
/// multiplies. A slot's flag is the number of the run whose sums it holds.
template <class Sum>
struct WgmmaSlots {
    Sum* sums = nullptr;
    unsigned* flags = nullptr;
    unsigned run = 0;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// A stage's number and the parity of its barriers, in the order in which stages are used.
template <int kStages>
struct StageRing {
    int stage = 0;
    unsigned parity = 0;
    __device__ void next() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/// The blocks' shared memory.
template <class S>
struct WgmmaMemory {
    std::uint32_t base;

    __device__ explicit WgmmaMemory(const void* memory)
        : base((shared_address(memory) + S::kAlignment - 1) / S::kAlignment * S::kAlignment) {}
    __device__ std::uint32_t a(int stage) const { return base + stage * S::kStageBytes; }
    __device__ std::uint32_t b(int stage) const { return a(stage) + S::kBytesA; }
    __device__ std::uint32_t result() const { return base + S::kStages * S::kStageBytes; }
    __device__ std::uint32_t full(int stage) const { return result() + S::kResultBytes + 8 * stage; }
    __device__ std::uint32_t empty(int stage) const { return full(S::kStages + stage); }
};

/// One thread of a block brings the tiles of both operands, as far ahead as there are stages. Blocks of a
/// cluster bring a part of B's tile each, for all of them.
template <class S>
__device__ void produce(const CUtensorMap* map_a, const CUtensorMap* map_b, const WgmmaWork& work,
                        const WgmmaMemory<S>& memory) {
    constexpr unsigned kAll = (1U << S::kCluster) - 1;
    constexpr int kBoxBytesAcross = S::kRow * 128;  // kRow of k by 128 bytes of m or n
    const auto rank = static_cast<int>(blockIdx.x % S::kCluster);
    StageRing<S::kStages> ring;
    WgmmaSchedule schedule(work, S::kCluster);
    for (WgmmaItem item; schedule.next(item);) {
        const int row = (item.tile_m * S::kCluster + rank) * S::kBm;
        const int col = item.tile_n * S::kBn;
        for (int stage = item.first_stage; stage < item.last_stage; ++stage) {
            wait_barrier(memory.empty(ring.stage), ring.parity ^ 1);
            const std::uint32_t full = memory.full(ring.stage);
            arrive_expecting(full, S::kStageBytes);
            const int depth = stage * S::kRow;
            if constexpr (S::kAcrossA) {
#pragma unroll
                for (int x = 0; x < S::kBm / S::kRow; ++x) {
                    load_box_async(memory.a(ring.stage) + x * kBoxBytesAcross, map_a, row + x * S::kRow,
                                   depth, full);
                }
            } else {
                load_box_async(memory.a(ring.stage), map_a, depth, row, full);
            }
#pragma unroll
            for (int x = 0; x < S::kShareB; x += S::kBoxB) {
                const int line = rank * S::kShareB + x;
                const int along = S::kAcrossB ? col + line / S::kRow * S::kRow : depth;
                const int down = S::kAcrossB ? depth + line % S::kRow : col + line;
                load_box_for(kAll, memory.b(ring.stage) + line * 128, map_b, along, down, full);
            }
            ring.next();
        }
    }
}

/// Makes elements of C of sums where α and β ask for it. This is code apart: what is skipped must not lie
/// between the instructions of the common case, which come from memory when they run for the first time.
template <class S>
__device__ void scale_sums(typename S::Sum (&sums)[S::kBn / 2],
                           const WgmmaResult<typename S::Sum, typename S::Out>& result, std::int64_t row,
                           std::int64_t col) {
    if (result.d == nullptr && result.alpha == typename S::Sum(1)) return;
    const auto thread = static_cast<int>(threadIdx.x % 128);
    const std::int64_t upper = row + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int at = 0; at < S::kBn / 2; ++at) {
        sums[at] =
            result.scaled(sums[at], upper + at / 2 % 2 * 8, col + at / 4 * 8 + thread % 4 * 2 + at % 2);
    }
}

/// Writes pairs of elements as they lie in registers, to `rows` rows of `cols` of them.
template <class S, class To>
__device__ void write_pairs(const typename S::Sum (&sums)[S::kBn / 2], To* to, std::int64_t pitch,
                            std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t col) {
    const auto thread = static_cast<int>(threadIdx.x % 128);
    const std::int64_t upper = row + thread / 32 * 16 + thread % 32 / 4;
    const bool together = reinterpret_cast<std::uintptr_t>(to) % (2 * sizeof(To)) == 0 && pitch % 2 == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const std::int64_t i = upper + half * 8;
        if (i >= rows) continue;
        To* const line = to + i * pitch + col + thread % 4 * 2;
        const std::int64_t left = cols - col - thread % 4 * 2;
#pragma unroll
        for (int group = 0; group < S::kBn / 8; ++group) {
            if (group * 8 >= left) continue;
            const To x = from_sum<To>(sums[group * 4 + half * 2]);
            const To y = from_sum<To>(sums[group * 4 + half * 2 + 1]);
            if (together && group * 8 + 1 < left) {
                *reinterpret_cast<Vector<To, 2>*>(line + group * 8) = {x, y};
            } else {
                line[group * 8] = x;
                if (group * 8 + 1 < left) line[group * 8 + 1] = y;
            }
        }
    }
}

/// Writes a warpgroup's 64 rows of C through its part of shared memory, in boxes of 64 columns that lie
/// swizzled. `box` counts them from the first tile on.
template <class S>
__device__ void write_staged(const typename S::Sum (&sums)[S::kBn / 2],
                             const WgmmaResult<typename S::Sum, typename S::Out>& result,
                             const CUtensorMap* map_c, std::uint32_t boxes, int group, std::int64_t row,
                             std::int64_t col, int& box) {
    using Out = typename S::Out;
    const auto thread = static_cast<int>(threadIdx.x % 128);
    const int lane = thread % 32;
    const int warp_row = thread / 32 * 16;
    // A lane says where a row of 8 elements goes: upper and lower half, then the next 8 columns.
    const int to_row = warp_row + lane % 16;
#pragma unroll
    for (int part = 0; part < S::kBn / 64; ++part) {
        const std::uint32_t shared = boxes + box++ % S::kBoxes * S::kBoxBytes;
        if (thread == 0) wait_stores_read<S::kBoxes - 1>();
        sync_at<128>(1 + group);  // what the box held has left
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            std::uint32_t words[4];
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                const int at = part * 32 + pair * 8 + w * 2;
                const Vector<Out, 2> both = {from_sum<Out>(sums[at]), from_sum<Out>(sums[at + 1])};
                memcpy(&words[w], &both, 4);
            }
            const int piece = pair * 2 + lane / 16;
            store_matrices(shared + to_row * 128 + (piece ^ (to_row % 8)) * 16, words);
        }
        if (result.by_copies) publish_shared();
        sync_at<128>(1 + group);  // the box is full
        if (result.by_copies) {
            if (thread == 0) {
                store_box_async(map_c, static_cast<int>(col) + part * 64, static_cast<int>(row), shared);
                commit_stores();
            }
            continue;
        }
        for (int r = thread / 32; r < 64 && row + r < result.m; r += 4) {
            Out* const c = result.c + (row + r) * result.ldc + col + part * 64;
#pragma unroll
            for (int x = lane; x < 64; x += 32) {
                if (col + part * 64 + x >= result.n) break;
                const std::uint32_t from = shared + r * 128 + ((x / 8) ^ (r % 8)) * 16 + x % 8 * 2;
                std::uint16_t bits = 0;
                asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(from));
                memcpy(c + x, &bits, 2);
            }
        }
    }
}

/// The slot of a warpgroup's sums, four words of every thread after those of the thread before.
template <class S>
__device__ Vector<typename S::Sum, 4>* slot_of(const WgmmaSlots<typename S::Sum>& slots, unsigned block,
                                               int group) {
    using Four = Vector<typename S::Sum, 4>;
    return reinterpret_cast<Four*>(slots.sums) + (block * S::kConsumers + group) * (S::kBn / 8 * 128) +
           threadIdx.x % 128;
}

/// Keeps a warpgroup's sums for the cluster that began the tile.
template <class S>
__device__ void keep_sums(const typename S::Sum (&sums)[S::kBn / 2], const WgmmaSlots<typename S::Sum>& slots,
                          int group) {
    auto* const slot = slot_of<S>(slots, blockIdx.x, group);
#pragma unroll
    for (int i = 0; i < S::kBn / 8; ++i)
        slot[i * 128] = {sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2], sums[i * 4 + 3]};
    sync_at<128>(1 + group);  // all are written
    if (threadIdx.x % 128 == 0) {
        __threadfence();
        asm volatile(
            "st.release.gpu.global.u32 [%0], %1;" ::"l"(slots.flags + blockIdx.x * S::kConsumers + group),
            "r"(slots.run)
            : "memory");
    }
}

/// Adds the sums of the clusters that follow, in their order.
template <class S>
__device__ void add_followers(typename S::Sum (&sums)[S::kBn / 2], const WgmmaSlots<typename S::Sum>& slots,
                              int followers, int group) {
    for (int follower = 1; follower <= followers; ++follower) {
        const unsigned block = blockIdx.x + follower * S::kCluster;
        if (threadIdx.x % 128 == 0) {
            unsigned run = 0;
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                             : "=r"(run)
                             : "l"(slots.flags + block * S::kConsumers + group)
                             : "memory");
            } while (run != slots.run);
        }
        sync_at<128>(1 + group);  // they are there
        const auto* const slot = slot_of<S>(slots, block, group);
#pragma unroll
        for (int i = 0; i < S::kBn / 8; ++i) {
            const uint4 words = __ldcg(reinterpret_cast<const uint4*>(slot + i * 128));
            Vector<typename S::Sum, 4> more;
            memcpy(&more, &words, 16);
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i * 4 + e] += more.at[e];
        }
    }
}

/// A warpgroup multiplies 64 rows of every tile.
template <class S>
__device__ void consume(const CUtensorMap* map_c, const WgmmaWork& work,
                        const WgmmaResult<typename S::Sum, typename S::Out>& result,
                        const WgmmaSlots<typename S::Sum>& slots, const WgmmaMemory<S>& memory, int group) {
    using Factor = typename S::Factor;
    constexpr int kSteps = 4;  // of 32 bytes of k
    constexpr int kBlockBytes = S::kRow * 128;
    // The next 32 bytes of k are further on in a row, or some rows further down.
    constexpr int kStepA = S::kAcrossA ? S::kRow / kSteps * 128 : 32;
    constexpr int kStepB = S::kAcrossB ? S::kRow / kSteps * 128 : 32;
    constexpr int kGroupBytes = 64 * 128;  // the 64 rows (or columns of m) of a warpgroup, in both layouts
    const auto rank = static_cast<int>(blockIdx.x % S::kCluster);
    const auto thread = static_cast<int>(threadIdx.x % 128);
    const auto release = [&](int stage) {
        if (thread < S::kCluster) arrive_in_cluster(memory.empty(stage), thread);
    };
    typename S::Sum sums[S::kBn / 2];
    int box = 0;
    StageRing<S::kStages> ring;
    WgmmaSchedule schedule(work, S::kCluster);
    WgmmaItem next;
    bool more = schedule.next(next);
    while (more) {
        const WgmmaItem item = next;
        const int stages = item.last_stage - item.first_stage;
        int before = 0;
        for (int s = 0; s < stages; ++s) {
            wait_barrier(memory.full(ring.stage), ring.parity);
            const std::uint32_t a = memory.a(ring.stage) + group * kGroupBytes;
            const std::uint32_t b = memory.b(ring.stage);
            begin_products();
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                multiply_async<Factor, S::kBn, S::kAcrossA, S::kAcrossB>(
                    sums, unit_operand(a + step * kStepA, kBlockBytes),
                    unit_operand(b + step * kStepB, kBlockBytes), s != 0 || step != 0 ? 1 : 0);
            }
            commit_products();
            if (s == 0) more = schedule.next(next);  // while the matrix units are at work
            wait_products<1>();
            if (s != 0) release(before);
            before = ring.stage;
            ring.next();
        }
        wait_products<0>();
        release(before);
        if (item.follows) {
            keep_sums<S>(sums, slots, group);
            continue;
        }
        add_followers<S>(sums, slots, item.followers, group);
        const int row = (item.tile_m * S::kCluster + rank) * S::kBm + group * 64;
        const int col = item.tile_n * S::kBn;
        if (result.partial != nullptr) {  // whose rows are read in fours, and written up to their ends
            write_pairs<S>(sums, result.partial + item.split * result.m * result.pitch, result.pitch,
                           result.m, result.pitch, row, col);
            continue;
        }
        scale_sums<S>(sums, result, row, col);
        if constexpr (S::kStaged) {
            write_staged<S>(sums, result, map_c, memory.result() + group * (S::kResultBytes / 2), group, row,
                            col, box);
        } else {
            write_pairs<S>(sums, result.c, result.ldc, result.m, result.n, row, col);
        }
    }
    if constexpr (S::kStaged) {
        if (thread == 0) wait_stores_read<0>();
    }
}

#endif

/// Blocks of a cluster are one above the other. The first warpgroup of a block brings operands, the others
/// multiply.
template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
          const __grid_constant__ CUtensorMap map_c, const WgmmaWork work,
          const WgmmaResult<typename S::Sum, typename S::Out> result,
          const WgmmaSlots<typename S::Sum> slots) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) std::byte wgmma_memory[];
    const WgmmaMemory<S> memory(wgmma_memory);
    if (threadIdx.x == 0) {
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        prefetch_map(&map_c);
        for (int stage = 0; stage < S::kStages; ++stage) {
            init_barrier(memory.full(stage), 1);
            init_barrier(memory.empty(stage), S::kConsumers * S::kCluster);
        }
        publish_barriers();
    }
    sync_cluster<S::kCluster>();
    // Registers go from the warpgroup that needs none for sums to those that do.
    if (threadIdx.x < 128) {
        give_registers<40>();
        if (threadIdx.x == 0) produce<S>(&map_a, &map_b, work, memory);
    } else {
        take_registers<232>();
        consume<S>(&map_c, work, result, slots, memory, static_cast<int>(threadIdx.x / 128) - 1);
    }
    sync_cluster<S::kCluster>();  // others may still write to this block's shared memory
#else
    __trap();
#endif
}

/// Adds up the runs of k in their order, and makes C of them: a thread does four neighbours, or one where
/// there are no runs.
template <class Sum, class Out>
__global__ void __launch_bounds__(256) add_splits(const WgmmaResult<Sum, Out> result, int splits) {
    const std::int64_t width = result.pitch / 4;
    const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < result.m * width;
         at += step) {
        const std::int64_t i = at / width;
        const std::int64_t j = at % width * 4;
        Sum sums[4] = {};
        for (int split = 0; split < splits; ++split) {
            const auto more = *reinterpret_cast<const Vector<Sum, 4>*>(
                result.partial + (split * result.m + i) * result.pitch + j);
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[e] += more.at[e];
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (j + e < result.n)
                result.c[i * result.ldc + j + e] = from_sum<Out>(result.scaled(sums[e], i, j + e));
        }
    }
}

}  // namespace gpumat::multiply::gpu
