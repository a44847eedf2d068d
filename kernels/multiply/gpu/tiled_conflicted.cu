// multiply, GPU level `tiled-conflicted`: both tiles are loaded along memory, but B's is kept transposed and
// the inner loop reads it down a bank.
//
// Changed since `tiled-uncoalesced`: B's loads coalesce, as they do when B was transposed beforehand (with
// --transpose-b it is exactly that). That removes the excess transactions. The tile stays as [j][k], so the
// 32 lanes read from one bank and wait for each other.
// Traffic: 8 flops a byte in f32.
// Limited by: bank conflicts. 32 lanes that each read 4 bytes of one bank take 32 clocks a step. In f32 the
// compiler reads four steps at once, 16 bytes a lane, in 32 clocks: 8 clocks a step, and one for A. That is
// 1.9 TFLOP/s of 66.9 on an H200.
// Idea: NVIDIA, CUDA C++ Best Practices Guide, shared memory and memory banks.
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

constexpr int kTile = 32;

template <class T>
__global__ void __launch_bounds__(kTile* kTile) tiled_conflicted(Arguments<T> p) {
    __shared__ T a_tile[kTile][kTile + 1];  // [i][k]
    __shared__ T b_tile[kTile][kTile];      // [j][k], without the spare column that would part the banks
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);
    const int a_i = p.a.col == 1 ? y : x;
    const int a_k = p.a.col == 1 ? x : y;
    const int b_k = p.b.col == 1 ? y : x;
    const int b_j = p.b.col == 1 ? x : y;

    const std::int64_t tiles_n = divide_up<std::int64_t>(p.n, kTile);
    const std::int64_t tiles_m = divide_up<std::int64_t>(p.m, kTile);
    for (std::int64_t tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        const std::int64_t i0 = tile / tiles_n * kTile;
        const std::int64_t j0 = tile % tiles_n * kTile;
        Sum<T> sum{};
        for (std::int64_t k0 = 0; k0 < p.k; k0 += kTile) {
            const bool a_inside = i0 + a_i < p.m && k0 + a_k < p.k;
            const bool b_inside = k0 + b_k < p.k && j0 + b_j < p.n;
            a_tile[a_i][a_k] = a_inside ? *p.a.at(i0 + a_i, k0 + a_k) : T{};
            b_tile[b_j][b_k] = b_inside ? *p.b.at(k0 + b_k, j0 + b_j) : T{};
            __syncthreads();  // the tiles are complete
#pragma unroll
            for (int k = 0; k < kTile; ++k) {
                sum = multiply_add(to_sum(a_tile[y][k]), to_sum(b_tile[x][k]), sum);
            }
            __syncthreads();  // nobody reads them any more
        }
        if (i0 + y < p.m && j0 + x < p.n) p.finish(i0 + y, j0 + x, sum);
    }
}

}  // namespace

Launch prepare_tiled_conflicted(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("tiled-conflicted", blocks_for_tiles(problem, kTile, kTile, dim3(kTile, kTile)),
                           tiled_conflicted<T>, Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
