#pragma once

// The kernel of the level `pipelined`; pipelined.cu describes the level.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "kernels/common/async_copy.cuh"
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/gpu/tuning.hpp"

namespace gpumat::multiply::gpu {

/// How a thread block loads an operand: element by element, whatever its steps, or in 16-byte vectors along
/// the rows of C (for A) or its columns (for B).
enum class Load { element, vector };

/// kCount elements that are loaded and stored at once.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Vector {
    T at[kCount];
};

/// Reads 16 bytes of shared memory as one access, which the compiler does not always make of a struct.
template <class S, int kCount>
__device__ inline void read_vector(S (&to)[kCount], const S* from) {
    static_assert(sizeof(to) == 16);
    const uint4 bits = *reinterpret_cast<const uint4*>(from);
    memcpy(to, &bits, 16);
}

/// Elements of one 16-byte access to shared memory, where elements are stored as sums.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(Sum<T>));

/// Elements between the k-rows of an operand's tile in shared memory. Element-wise copies write 8 rows × 4
/// neighbours at once, which a shift of four banks a row keeps free of conflicts.
template <class T>
constexpr int pitch(int extent, Load load) {
    return extent + (load == Load::element ? kVector<T> : 0);
}

/// Copies one operand's tiles, kExtent rows (or columns) × kDepth in k, to shared memory, k by k: element
/// (x, k) goes to k·pitch + x. `row` is the step in memory along x, `col` along k.
///
/// Where the hardware copies asynchronously and elements are stored as they are, `copy` starts the copy and
/// `finish` does nothing. Elsewhere `copy` loads into registers, and `finish` converts and stores.
template <class T, int kExtent, int kDepth, int kThreads, Load kLoad>
class Loader {
    static constexpr int kWidth = kLoad == Load::vector ? kVector<T> : 1;
    static constexpr int kPitch = pitch<T>(kExtent, kLoad);
    static constexpr bool kAsync = GPUMAT_HAS_ASYNC_COPY && std::is_same_v<T, Sum<T>>;
    // Element-wise: a warp copies patches of kPatch × 8 in k, in kPerPatch steps of 32 elements.
    static constexpr int kPatch = kExtent < 32 ? kExtent : 32;
    static constexpr int kPerPatch = kPatch / 4;

  public:
    static constexpr int kCopies = kExtent * kDepth / kWidth / kThreads;
    static_assert(kCopies * kWidth * kThreads == kExtent * kDepth, "the threads share a tile evenly");
    static_assert(kCopies <= 32, "one bit of the mask a copy");
    static_assert(kLoad == Load::vector || kPerPatch % kCopies == 0 || kCopies % kPerPatch == 0,
                  "a warp copies whole patches, or an even part of one");
    static_assert(kLoad == Load::vector || kDepth % 8 == 0, "patches are 8 deep");
    static_assert(kLoad == Load::element || kThreads % (kExtent / kWidth) == 0, "threads load whole rows");

    /// Rows from `x0` on and k from `k0` to `k_end`; `extent` is the matrix's number of rows.
    __device__ Loader(const Strided<T>& from, std::int64_t x0, std::int64_t extent, std::int64_t k0,
                      std::int64_t k_end)
        : k_left_(k_end - k0), tile_step_(kDepth * from.col) {
        const int thread = static_cast<int>(threadIdx.x);
        int x = 0;
        int dx = 0;
        if constexpr (kLoad == Load::vector) {
            constexpr int kRow = kExtent / kWidth;  // vectors in a row
            x = thread % kRow * kWidth;
            k_ = thread / kRow;
            dk_ = kThreads / kRow;
        } else {
            const int lane = thread % 32;
            const int first = thread / 32 * kCopies;  // of all the steps of the tile
            const int patch = first / kPerPatch;
            const bool along_k = from.col == 1;  // neighbours in memory are neighbours in k
            dx = along_k ? 4 : 0;
            dk_ = along_k ? 0 : 32 / kPatch;
            x = patch / (kDepth / 8) * kPatch + (along_k ? lane / 8 : lane % kPatch) + first % kPerPatch * dx;
            k_ = patch % (kDepth / 8) * 8 + (along_k ? lane % 8 : lane / kPatch) + first % kPerPatch * dk_;
        }
        step_ = dx * from.row + dk_ * from.col;
        shared_step_ = dx + dk_ * kPitch;
        if constexpr (kPatches > 1) {
            next_k_ = 8 * from.col - (kPerPatch - 1) * step_;
            next_x_ = kPatch * from.row - (kDepth - 8) * from.col - (kPerPatch - 1) * step_;
        }
        for (int c = 0; c < kCopies; ++c) {
            inside_ |= static_cast<unsigned>(x0 + x + patch_x(c) + in_patch(c) * dx < extent) << c;
        }
        from_ = from.at(x0 + x, k0 + k_);
        shared_ = k_ * kPitch + x;
    }

    /// Turns to the next tile, whose copies go to `stage`.
    __device__ void begin(Sum<T>* stage) {
        stage_ = stage + shared_;
        to_ = stage_;
        now_ = from_;
        valid_ = inside_;
        if (k_left_ < kDepth) {  // the last tile, or none
            for (int c = 0; c < kCopies; ++c) {
                if (k_ + patch_k(c) + in_patch(c) * dk_ >= k_left_) valid_ &= ~(1u << c);
            }
        }
        from_ += tile_step_;
        k_left_ -= kDepth;
    }

    /// Starts copy c; they must come in order.
    __device__ void copy(int c) {
        const unsigned valid = valid_ & 1u << c;
        if constexpr (kAsync) {
#if GPUMAT_HAS_ASYNC_COPY
            copy_async<kWidth* static_cast<int>(sizeof(T))>(shared_address(to_), now_, valid);
#endif
            to_ = after(to_, c);
        } else {
            staged_[c] = valid != 0 ? *reinterpret_cast<const Vector<T, kWidth>*>(now_) : Vector<T, kWidth>{};
        }
        const bool new_patch = (c + 1) % kPerPatch == 0;
        const bool new_rows = (c + 1) % (kPerPatch * (kDepth / 8)) == 0;
        now_ += kPatches == 1 || !new_patch ? step_ : new_rows ? next_x_ : next_k_;
    }

    /// Ends the copies of this tile.
    __device__ void finish() {
        if constexpr (!kAsync) {
#pragma unroll
            for (int c = 0; c < kCopies; ++c) {
                Vector<Sum<T>, kWidth> sums;
#pragma unroll
                for (int i = 0; i < kWidth; ++i) sums.at[i] = to_sum(staged_[c].at[i]);
                *reinterpret_cast<Vector<Sum<T>, kWidth>*>(to_) = sums;
                to_ = after(to_, c);
            }
        }
    }

  private:
    static constexpr int kPatches = kLoad == Load::vector ? 1 : (kCopies + kPerPatch - 1) / kPerPatch;

    // Where copy c is, from the thread's first: its patch, and its step within it.
    static __device__ constexpr int patch_x(int c) {
        return kPatches == 1 ? 0 : c / kPerPatch / (kDepth / 8) * kPatch;
    }
    static __device__ constexpr int patch_k(int c) {
        return kPatches == 1 ? 0 : c / kPerPatch % (kDepth / 8) * 8;
    }
    static __device__ constexpr int in_patch(int c) {
        return kPatches == 1 ? c : c % kPerPatch;
    }

    /// Where copy c + 1 goes, given where copy c does.
    __device__ Sum<T>* after(Sum<T>* to, int c) const {
        if (kPatches == 1 || (c + 1) % kPerPatch != 0) return to + shared_step_;
        return stage_ + patch_x(c + 1) + patch_k(c + 1) * kPitch;
    }

    struct Nothing {};
    std::int64_t k_left_;
    std::int64_t tile_step_;
    std::int64_t step_ = 0;    // in memory, from one copy to the next within a patch
    std::int64_t next_k_ = 0;  // to the next patch along k
    std::int64_t next_x_ = 0;  // to the first patch of the next rows
    const T* from_ = nullptr;  // this thread's first element of the next tile
    const T* now_ = nullptr;   // where the next copy of this tile reads
    Sum<T>* stage_ = nullptr;  // this thread's first element in the stage that is filled
    Sum<T>* to_ = nullptr;     // where the next copy goes
    int k_ = 0;
    int dk_ = 0;
    int shared_ = 0;
    int shared_step_ = 0;
    unsigned inside_ = 0;  // copies whose row is in the matrix
    unsigned valid_ = 0;   // and whose k is as well, for this tile
    std::conditional_t<kAsync, Nothing, Vector<T, kWidth>[kCopies]> staged_;
};

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

    Loader<T, kTile.bm, kTile.bk, kTile.threads(), kLoadA> load_a(p.a, i0, p.m, k_begin, k_end);
    const Strided<T> b_by_column{p.b.data, p.b.col, p.b.row};
    Loader<T, kTile.bn, kTile.bk, kTile.threads(), kLoadB> load_b(b_by_column, j0, p.n, k_begin, k_end);
    constexpr int kCopiesA = decltype(load_a)::kCopies;
    constexpr int kCopiesB = decltype(load_b)::kCopies;

    for (int stage = 0; stage < kTile.stages - 1; ++stage) {
        load_a.begin(stages + stage * Shape::kStage);
        load_b.begin(stages + stage * Shape::kStage + kTile.bk * Shape::kPitchA);
#pragma unroll
        for (int c = 0; c < kCopiesA; ++c) load_a.copy(c);
#pragma unroll
        for (int c = 0; c < kCopiesB; ++c) load_b.copy(c);
        load_a.finish();
        load_b.finish();
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

    int read_stage = 0;
    int write_stage = kTile.stages - 1;
    const S* a_now = stages + thread_m;
    const S* b_now = stages + kTile.bk * Shape::kPitchA + thread_n;
    read(0, a_now, b_now);
    for (std::int64_t k0 = k_begin; k0 < k_end; k0 += kTile.bk) {
        load_a.begin(stages + write_stage * Shape::kStage);
        load_b.begin(stages + write_stage * Shape::kStage + kTile.bk * Shape::kPitchA);
        write_stage = read_stage;  // free once this stage is used up
#pragma unroll
        for (int k = 0; k < kTile.bk; ++k) {
            // The copies are spread over the steps, so that they never hold up the arithmetic.
#pragma unroll
            for (int c = 0; c < kCopiesA; ++c) {
                if (c * kTile.bk / kCopiesA == k) load_a.copy(c);
            }
#pragma unroll
            for (int c = 0; c < kCopiesB; ++c) {
                if (c * kTile.bk / kCopiesB == k) load_b.copy(c);
            }
            if (k + 1 == kTile.bk) {
                load_a.finish();
                load_b.finish();
#if GPUMAT_HAS_ASYNC_COPY
                commit_copies();
                wait_copies<kTile.stages - 2>();
#endif
                __syncthreads();  // the next stage is complete, and nobody reads this one any more
                read_stage = read_stage + 1 == kTile.stages ? 0 : read_stage + 1;
                a_now = stages + read_stage * Shape::kStage + thread_m;
                b_now = stages + read_stage * Shape::kStage + kTile.bk * Shape::kPitchA + thread_n;
                read((k + 1) % 2, a_now, b_now);
            } else {
                read((k + 1) % 2, a_now + (k + 1) * Shape::kPitchA, b_now + (k + 1) * Shape::kPitchB);
            }
#pragma unroll
            for (int i = 0; i < kTile.tm; ++i) {
#pragma unroll
                for (int j = 0; j < kTile.tn; ++j) {
                    sums[i][j] = multiply_add(a[k % 2][i], b[k % 2][j], sums[i][j]);
                }
            }
        }
    }

    const bool partial = blockIdx.x >= work.whole && work.splits > 1;
    S* const slot = partial ? work.partial + (blockIdx.x - work.whole) * (kTile.bm * kTile.bn) : nullptr;
    constexpr auto kAlignment = kV * sizeof(T);
    const bool aligned = p.n % kV == 0 && reinterpret_cast<std::uintptr_t>(p.c) % kAlignment == 0 &&
                         reinterpret_cast<std::uintptr_t>(p.d) % kAlignment == 0;
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

/// Adds up the partial sums of split tiles: block = 256 threads for 256 / kTogether elements of one tile;
/// thread (x, y) adds the splits y, y + kTogether …, then the kTogether sums are added in order.
template <class T>
__global__ void __launch_bounds__(256) add_partial_sums(Arguments<T> p, Work<T> work, int bm, int bn) {
    constexpr int kTogether = 8;
    constexpr int kElements = 256 / kTogether;
    __shared__ Sum<T> shared[kTogether][kElements];
    const int x = static_cast<int>(threadIdx.x) % kElements;
    const int y = static_cast<int>(threadIdx.x) / kElements;
    const int area = bm * bn;
    const int blocks_per_tile = area / kElements;
    const std::int64_t index = blockIdx.x / blocks_per_tile;
    const int element = static_cast<int>(blockIdx.x % blocks_per_tile) * kElements + x;
    const auto corner = work.corner(work.whole + index);
    const std::int64_t i = std::int64_t{corner.m} * bm + element / bn;
    const std::int64_t j = std::int64_t{corner.n} * bn + element % bn;
    const bool inside = i < p.m && j < p.n;

    const Sum<T>* const partial = work.partial + index * work.splits * area + element;
    Sum<T> sum{};
    if (inside) {
#pragma unroll 4
        for (int split = y; split < work.splits; split += kTogether) {
            sum = sum + partial[static_cast<std::int64_t>(split) * area];
        }
    }
    shared[y][x] = sum;
    __syncthreads();  // every part is there
    if (y == 0 && inside) {
        for (int other = 1; other < kTogether; ++other) sum = sum + shared[other][x];
        p.finish(i * p.n + j, sum);
    }
}

/// Whether 16-byte vectors of the operand lie along its rows x (A) or columns (B) in memory.
template <class T>
bool loads_vectors(const Strided<T>& from) {
    constexpr auto kBytes = kVector<T> * sizeof(T);
    return from.row == 1 && from.col % kVector<T> == 0 &&
           reinterpret_cast<std::uintptr_t>(from.data) % kBytes == 0;
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
    const auto adders = static_cast<unsigned>(split_tiles * (kTile.bm * kTile.bn / 32));
    Launch launch{
        .level = "pipelined",
        .run =
            [=, stream = stream_of(device)] {
                kKernel<<<grid, block, kSharedBytes, stream>>>(arguments, work);
                GPUMAT_CUDA(cudaGetLastError());
                if (adders == 0) return;
                add_partial_sums<T><<<adders, 256, 0, stream>>>(arguments, work, kTile.bm, kTile.bn);
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

/// The same, choosing how the operands are loaded. Two stored transposes, and other rare cases, are loaded
/// element by element.
template <class T, Tile kTile>
Launch prepare_pipelined_tile(const Problem& problem, const Operands& operands, const Device& device,
                              const Schedule& schedule) {
    const Arguments<T> arguments(problem, operands);
    if (loads_vectors(Strided<T>{arguments.b.data, arguments.b.col, arguments.b.row})) {
        return prepare_pipelined_tile<T, kTile, Load::element, Load::vector>(problem, operands, device,
                                                                             schedule);
    }
    return prepare_pipelined_tile<T, kTile, Load::element, Load::element>(problem, operands, device,
                                                                          schedule);
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
    const Plan plan = plan_tiles(kTiles, problem.m, problem.n, problem.k, device.gpu->info().multiprocessors);
    return prepare_pipelined_plan<T, kTiles>(problem, operands, device, plan,
                                             std::make_index_sequence<kTiles.size()>{});
}

}  // namespace gpumat::multiply::gpu
