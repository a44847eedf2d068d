// multiply, GPU level `coarsened-transposed`: B's tile is kept transposed and padded.
//
// Changed since `coarsened`: a thread reads both tiles along their rows, so that all offsets of the inner
// loop are small constants from one address for each tile; the spare column parts the banks. On the GPUs that
// this was published for, that removed an address addition a step (235 to 276 GFLOP/s on a GTX 280). Today's
// compilers unroll both loops to constant offsets, and the level shows how little is left to gain.
// Traffic: 8 flops a byte in f32; 3 shared loads for 2 multiply-adds.
// Limited by: shared loads, as before: 11.1 TFLOP/s of 66.9 on an H200.
// Idea: the course material that the ladder reproduces.
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

constexpr int kTile = 32;
constexpr int kRows = 16;    // rows of threads
constexpr int kOutputs = 2;  // rows of C a thread: y and y + kRows
static_assert(kRows * kOutputs == kTile, "the threads cover the tile");

template <class T>
__global__ void __launch_bounds__(kTile* kRows) coarsened_transposed(Arguments<T> p) {
    __shared__ T a_tile[kTile][kTile + 1];  // [i][k]
    __shared__ T b_tile[kTile][kTile + 1];  // [j][k]
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);

    const std::int64_t tiles_n = divide_up<std::int64_t>(p.n, kTile);
    const std::int64_t tiles_m = divide_up<std::int64_t>(p.m, kTile);
    for (std::int64_t tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        const std::int64_t i0 = tile / tiles_n * kTile;
        const std::int64_t j0 = tile % tiles_n * kTile;
        Sum<T> sums[kOutputs] = {};
        for (std::int64_t k0 = 0; k0 < p.k; k0 += kTile) {
#pragma unroll
            for (int part = 0; part < kOutputs; ++part) {
                const int row = y + part * kRows;
                const int a_i = p.a.col == 1 ? row : x;
                const int a_k = p.a.col == 1 ? x : row;
                const int b_k = p.b.col == 1 ? row : x;
                const int b_j = p.b.col == 1 ? x : row;
                const bool a_inside = i0 + a_i < p.m && k0 + a_k < p.k;
                const bool b_inside = k0 + b_k < p.k && j0 + b_j < p.n;
                a_tile[a_i][a_k] = a_inside ? *p.a.at(i0 + a_i, k0 + a_k) : T{};
                b_tile[b_j][b_k] = b_inside ? *p.b.at(k0 + b_k, j0 + b_j) : T{};
            }
            __syncthreads();  // the tiles are complete
#pragma unroll
            for (int k = 0; k < kTile; ++k) {
                const Sum<T> b = to_sum(b_tile[x][k]);
#pragma unroll
                for (int part = 0; part < kOutputs; ++part) {
                    sums[part] = multiply_add(to_sum(a_tile[y + part * kRows][k]), b, sums[part]);
                }
            }
            __syncthreads();  // nobody reads them any more
        }
#pragma unroll
        for (int part = 0; part < kOutputs; ++part) {
            const std::int64_t i = i0 + y + part * kRows;
            if (i < p.m && j0 + x < p.n) p.finish(i, j0 + x, sums[part]);
        }
    }
}

}  // namespace

Launch prepare_coarsened_transposed(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("coarsened-transposed",
                           blocks_for_tiles(problem, kTile, kTile, dim3(kTile, kRows)),
                           coarsened_transposed<T>, Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
