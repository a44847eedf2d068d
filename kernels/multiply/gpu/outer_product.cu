// multiply, GPU level `outer-product`: rank-1 updates of a 16×64 tile of C, a column of 16 elements in each
// of 64 threads' registers.
//
// Changed since `coarsened-transposed`: only A's tile (16×16) is in shared memory. In each step a thread
// loads one element of B into a register, neighbours along a row of B, and multiplies it by a column of A
// that all threads share. That removes B's shared traffic. Traffic: 16 + 64 elements for 1024
// multiply-adds, 6.4 flops a byte in f32; one shared load (a broadcast) for a multiply-add. Limited by: that
// shared load, one a clock of a multiprocessor against four multiply-adds: 16.7 TFLOP/s of 66.9 on an H200;
// by the loop's own instructions, and by the latency of each step's load of B. Idea: Volkov and Demmel,
// "Benchmarking GPUs to tune dense linear algebra" (SC 2008), mirrored to row-major.
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
__global__ void __launch_bounds__(kCols) outer_product(Arguments<T> p) {
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
#pragma unroll 1
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

Launch prepare_outer_product(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("outer-product", blocks_for_tiles(problem, kRows, kCols, dim3(kCols)),
                           outer_product<T>, Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
