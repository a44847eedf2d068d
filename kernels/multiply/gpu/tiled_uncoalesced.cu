// multiply, GPU level `tiled-uncoalesced`: a block of 32×32 threads stages tiles of A and B in shared memory,
// and loads B's tile down its columns.
//
// Changed since `naive`: every element that a block loads serves 32 threads, so a block loads 32 times fewer
// elements. That removes most of the traffic, and leaves its pattern wrong on purpose: neighbouring threads
// load elements of B that are a row apart in memory, one transaction each.
// Traffic: 2 elements for every 32 multiply-adds, 8 flops a byte in f32; but each element of B drags a
// 32-byte sector along, 8 of them in f32, so 1.8 flops a byte for what moves. Limited by: transactions of B's
// loads. Idea: NVIDIA, CUDA C++ Programming Guide, shared memory; Volkov and Demmel (2008) for the
// comparison.
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

constexpr int kTile = 32;

template <class T>
__global__ void __launch_bounds__(kTile* kTile) tiled_uncoalesced(Arguments<T> p) {
    // The spare column keeps the stores free of bank conflicts, which are the next level's subject.
    __shared__ T a_tile[kTile][kTile + 1];  // [i][k]
    __shared__ T b_tile[kTile][kTile + 1];  // [k][j]
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);
    const int a_i = p.a.col == 1 ? y : x;  // along memory
    const int a_k = p.a.col == 1 ? x : y;
    const int b_k = p.b.col == 1 ? x : y;  // across memory
    const int b_j = p.b.col == 1 ? y : x;

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
            b_tile[b_k][b_j] = b_inside ? *p.b.at(k0 + b_k, j0 + b_j) : T{};
            __syncthreads();  // the tiles are complete
#pragma unroll
            for (int k = 0; k < kTile; ++k) {
                sum = multiply_add(to_sum(a_tile[y][k]), to_sum(b_tile[k][x]), sum);
            }
            __syncthreads();  // nobody reads them any more
        }
        if (i0 + y < p.m && j0 + x < p.n) p.finish(i0 + y, j0 + x, sum);
    }
}

}  // namespace

Launch prepare_tiled_uncoalesced(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("tiled-uncoalesced", blocks_for_tiles(problem, kTile, kTile, dim3(kTile, kTile)),
                           tiled_uncoalesced<T>, Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
