// multiply, GPU level `unrolled`: `outer-product` with the loop over the tile of A unrolled.
//
// Changed since `outer-product`: the 16 steps of a tile are straight code. That removes the branches and the
// address arithmetic between steps, and lets the compiler load several elements of B ahead of their use.
// Traffic: 6.4 flops a byte in f32; with constant offsets the compiler reads four elements of A at once.
// Limited by: issue slots, of which multiply-adds have 40 % (26.8 TFLOP/s of 66.9 on an H200), and the wait
// for A's tile at the barriers.
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
__global__ void __launch_bounds__(kCols) unrolled(Arguments<T> p) {
    __shared__ T a_tile[kDepth][kRows + 1];  // [k][i]; the spare column parts the banks of the stores
    const int t = static_cast<int>(threadIdx.x);

    const std::int64_t tiles_n = divide_up<std::int64_t>(p.n, kCols);
    const std::int64_t tiles_m = divide_up<std::int64_t>(p.m, kRows);
    for (std::int64_t tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        const std::int64_t i0 = tile / tiles_n * kRows;
        const std::int64_t j = tile % tiles_n * kCols + t;
        Sum<T> sums[kRows] = {};
        for (std::int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
#pragma unroll
            for (int load = 0; load < kLoads; ++load) {
                const int element = t + load * kCols;
                const int i = p.a.col == 1 ? element / kDepth : element % kRows;
                const int k = p.a.col == 1 ? element % kDepth : element / kRows;
                a_tile[k][i] = i0 + i < p.m && k0 + k < p.k ? *p.a.at(i0 + i, k0 + k) : T{};
            }
            __syncthreads();  // the tile of A is complete
#pragma unroll
            for (int k = 0; k < kDepth; ++k) {
                const Sum<T> b = to_sum(j < p.n && k0 + k < p.k ? *p.b.at(k0 + k, j) : T{});
#pragma unroll
                for (int i = 0; i < kRows; ++i) sums[i] = multiply_add(to_sum(a_tile[k][i]), b, sums[i]);
            }
            __syncthreads();  // nobody reads it any more
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

Launch prepare_unrolled(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("unrolled", blocks_for_tiles(problem, kRows, kCols, dim3(kCols)), unrolled<T>,
                           Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
