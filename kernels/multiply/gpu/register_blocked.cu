// multiply, GPU level `register-blocked`: 256 threads on a 128×128 tile of C, 8×8 elements in each thread's
// registers.
//
// Changed since `prefetch`: both operands are in shared memory again, k by k, and a thread reads 8 elements
// of each, in 16-byte accesses, for 64 multiply-adds. That removes the shared load for every multiply-add: 4
// shared reads for 64. (16-byte elements: 4×4 a thread on a tile of 64×64.) Every edge is checked, so any
// shape runs. Traffic: 256 elements for 16384 multiply-adds, 32 flops a byte in f32. Limited by: the wait at
// two barriers for every 8 steps, while global loads pass through registers; the next level overlaps them.
// Idea: Volkov and Demmel (SC 2008); Nath, Tomov and Dongarra, "An improved MAGMA GEMM" (2010).
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

constexpr int kSide = 16;  // threads along each side of the tile
constexpr int kDepth = 8;  // k of one stage
constexpr int kThreads = kSide * kSide;

/// S kept in shared memory and registers: 8×8 elements a thread, 4×4 where they are 16 bytes.
template <class S>
struct Tiling {
    static constexpr int kThread = sizeof(S) == 16 ? 4 : 8;  // elements of C along each side of a thread
    static constexpr int kBlock = kThread * kSide;           // and of a block
    static constexpr int kWidth = 16 / static_cast<int>(sizeof(S));  // elements of one access
    static constexpr int kPitch = kBlock + kWidth;
    static constexpr int kLoads = kBlock * kDepth / kThreads;
    static constexpr int kResident =
        sizeof(S) == 4 ? 2 : 1;  // blocks whose registers fit on a multiprocessor
    static_assert(kThreads % kBlock == 0 && kThreads % kDepth == 0, "a load covers whole rows or columns");
    static_assert(kLoads * kThreads == kBlock * kDepth, "the threads share a tile evenly");
    static_assert(kThread % kWidth == 0, "a thread reads whole vectors");
};

/// What a thread brings of one operand: kLoads elements of each tile of kBlock rows × kDepth in k, one
/// `step` apart in memory, along which neighbouring threads have neighbours.
template <class T>
struct Source {
    using Shape = Tiling<Sum<T>>;
    bool along_k;
    int x, k;           // place of the first element in the tile
    std::int64_t step;  // in memory, from one element to the next
    std::int64_t tile_step;
    const T* from;

    __device__ Source(const Strided<T>& matrix, std::int64_t x0)
        : along_k(matrix.col == 1),
          x(static_cast<int>(threadIdx.x) / (along_k ? kDepth : 1) % Shape::kBlock),
          k(along_k ? static_cast<int>(threadIdx.x) % kDepth : static_cast<int>(threadIdx.x) / Shape::kBlock),
          step(along_k ? kThreads / kDepth * matrix.row : kThreads / Shape::kBlock * matrix.col),
          tile_step(kDepth * matrix.col),
          from(matrix.at(x0 + x, k)) {}

    /// Stores element (x, k) of the next tile at tile[k][x]; `rows` and `depth` are what is left of the
    /// matrix.
    __device__ void load(Sum<T> (*tile)[Shape::kPitch], int rows, int depth) {
        const T* now = from;
#pragma unroll
        for (int load = 0; load < Shape::kLoads; ++load, now += step) {
            const int xx = x + (along_k ? load * (kThreads / kDepth) : 0);
            const int kk = k + (along_k ? 0 : load * (kThreads / Shape::kBlock));
            tile[kk][xx] = to_sum(xx < rows && kk < depth ? *now : T{});
        }
        from += tile_step;
    }
};

/// A thread's elements of one row of a tile: groups of 16 bytes, kSide groups apart.
template <class S>
__device__ void read_fragment(S (&fragment)[Tiling<S>::kThread], const S* row, int place) {
    constexpr int kWidth = Tiling<S>::kWidth;
    struct alignas(16) Group {
        S at[kWidth];
    };
#pragma unroll
    for (int group = 0; group < Tiling<S>::kThread / kWidth; ++group) {
        const Group values = *reinterpret_cast<const Group*>(row + (group * kSide + place) * kWidth);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) fragment[group * kWidth + e] = values.at[e];
    }
}

template <class T>
__global__ void __launch_bounds__(kThreads, Tiling<Sum<T>>::kResident) register_blocked(Arguments<T> p) {
    using S = Sum<T>;
    using Shape = Tiling<S>;
    constexpr int kThread = Shape::kThread;
    constexpr int kWidth = Shape::kWidth;
    __shared__ __align__(16) S a_tile[kDepth][Shape::kPitch];
    __shared__ __align__(16) S b_tile[kDepth][Shape::kPitch];
    const int x = static_cast<int>(threadIdx.x) % kSide;
    const int y = static_cast<int>(threadIdx.x) / kSide;
    const Strided<T> b_by_column{p.b.data, p.b.col, p.b.row};

    const std::int64_t tiles_n = divide_up<std::int64_t>(p.n, Shape::kBlock);
    const std::int64_t tiles_m = divide_up<std::int64_t>(p.m, Shape::kBlock);
    for (std::int64_t tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        const std::int64_t i0 = tile / tiles_n * Shape::kBlock;
        const std::int64_t j0 = tile % tiles_n * Shape::kBlock;
        const int rows = static_cast<int>(min(p.m - i0, std::int64_t{Shape::kBlock}));
        const int cols = static_cast<int>(min(p.n - j0, std::int64_t{Shape::kBlock}));
        Source<T> a_source(p.a, i0);
        Source<T> b_source(b_by_column, j0);
        S sums[kThread][kThread] = {};
        for (std::int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
            const int depth = static_cast<int>(min(p.k - k0, std::int64_t{kDepth}));
            a_source.load(a_tile, rows, depth);
            b_source.load(b_tile, cols, depth);
            __syncthreads();  // the tiles are complete
#pragma unroll
            for (int k = 0; k < kDepth; ++k) {
                S a[kThread];
                S b[kThread];
                read_fragment(a, a_tile[k], y);
                read_fragment(b, b_tile[k], x);
#pragma unroll
                for (int i = 0; i < kThread; ++i) {
#pragma unroll
                    for (int j = 0; j < kThread; ++j) sums[i][j] = multiply_add(a[i], b[j], sums[i][j]);
                }
            }
            __syncthreads();  // nobody reads them any more
        }
#pragma unroll
        for (int i = 0; i < kThread; ++i) {
            const int row = (i / kWidth * kSide + y) * kWidth + i % kWidth;
#pragma unroll
            for (int j = 0; j < kThread; ++j) {
                const int col = (j / kWidth * kSide + x) * kWidth + j % kWidth;
                if (row < rows && col < cols) p.finish(i0 + row, j0 + col, sums[i][j]);
            }
        }
    }
}

}  // namespace

Launch prepare_register_blocked(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch(
            "register-blocked",
            blocks_for_tiles(problem, Tiling<Sum<T>>::kBlock, Tiling<Sum<T>>::kBlock, dim3(kThreads)),
            register_blocked<T>, Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
