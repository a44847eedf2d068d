// multiply, GPU level `prefetch`: `unrolled` with a second buffer for the tile of A.
//
// Changed since `unrolled`: the next tile of A is loaded into registers before this one is used, and stored
// to the other buffer afterwards; one barrier a tile instead of two. That removes the wait for A's loads.
// Traffic: 6.4 flops a byte in f32, as before; the compiler reads four elements of A at once.
// Limited by: issue slots, of which 39 % are multiply-adds: 26.1 TFLOP/s of 66.9 on an H200.
// Idea: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra" (SC 2008).
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

constexpr int kRows = 16;   // rows of the tile of C, all of them in each thread
constexpr int kCols = 64;   // its columns, one a thread
constexpr int kDepth = 16;  // k of one tile of A
constexpr int kLoads = kRows * kDepth / kCols;
static_assert(kLoads * kCols == kRows * kDepth, "the threads share the tile of A evenly");

template <class T>
__global__ void __launch_bounds__(kCols) prefetch(Arguments<T> p) {
    __shared__ T a_tiles[2][kDepth][kRows + 1];  // [k][i]; the spare column parts the banks of the stores
    const int t = static_cast<int>(threadIdx.x);
    const auto row_of = [&](int load) {
        return p.a.col == 1 ? (t + load * kCols) / kDepth : (t + load * kCols) % kRows;
    };
    const auto depth_of = [&](int load) {
        return p.a.col == 1 ? (t + load * kCols) % kDepth : (t + load * kCols) / kRows;
    };

    const std::int64_t tiles_n = divide_up<std::int64_t>(p.n, kCols);
    const std::int64_t tiles_m = divide_up<std::int64_t>(p.m, kRows);
    for (std::int64_t tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        const std::int64_t i0 = tile / tiles_n * kRows;
        const std::int64_t j = tile % tiles_n * kCols + t;
        T next[kLoads];
        const auto load_next = [&](std::int64_t k0) {
#pragma unroll
            for (int load = 0; load < kLoads; ++load) {
                const std::int64_t i = i0 + row_of(load);
                const std::int64_t k = k0 + depth_of(load);
                next[load] = i < p.m && k < p.k ? *p.a.at(i, k) : T{};
            }
        };
        const auto store_next = [&](int buffer) {
#pragma unroll
            for (int load = 0; load < kLoads; ++load)
                a_tiles[buffer][depth_of(load)][row_of(load)] = next[load];
        };

        Sum<T> sums[kRows] = {};
        int buffer = 0;
        load_next(0);
        store_next(buffer);
        __syncthreads();  // the first tile of A is complete
        for (std::int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
            load_next(k0 + kDepth);  // on its way while this tile is used
#pragma unroll
            for (int k = 0; k < kDepth; ++k) {
                const Sum<T> b = to_sum(j < p.n && k0 + k < p.k ? *p.b.at(k0 + k, j) : T{});
#pragma unroll
                for (int i = 0; i < kRows; ++i)
                    sums[i] = multiply_add(to_sum(a_tiles[buffer][k][i]), b, sums[i]);
            }
            buffer ^= 1;
            store_next(buffer);
            __syncthreads();  // the next tile is complete, and nobody reads this one any more
        }
        if (j < p.n) {
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                if (i0 + i < p.m) p.finish(i0 + i, j, sums[i]);
            }
        }
    }
}

}  // namespace

Launch prepare_prefetch(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("prefetch", blocks_for_tiles(problem, kRows, kCols, dim3(kCols)), prefetch<T>,
                           Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
