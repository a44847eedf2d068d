// multiply, GPU level `tiled`: a block of tile×tile threads stages tiles of A and B in shared memory, one
// element of C a thread.
//
// Changed since `naive`: every element that a block loads from memory serves a whole row or column of the
// tile, so traffic falls by the tile's width. Both loads coalesce (each operand is read along the direction
// in which it is stored) and both tiles are read without bank conflicts (A is broadcast, B read along a row).
// Traffic: 2 elements for every tile multiply-adds, tile/4 flop a byte in f32: 8 at a tile of 32, for which
// 4.8 TB/s would give 38 TFLOP/s.
// Limited by: two shared loads for each multiply-add. A multiprocessor serves one warp's load a clock and
// could do four warps' multiply-adds, so this level ends at 1/8 of the arithmetic peak: 8.4 TFLOP/s of
// 66.9 on an H200.
// Idea: NVIDIA, CUDA C++ Programming Guide, shared memory (the tiled matrix product).
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

template <class T, int kTile>
__global__ void __launch_bounds__(kTile* kTile) tiled(Arguments<T> p) {
    // One spare column: a stored transpose is written down a column, which then has no bank conflicts.
    __shared__ T a_tile[kTile][kTile + 1];  // [i][k]
    __shared__ T b_tile[kTile][kTile + 1];  // [k][j]
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);
    // Neighbouring threads load neighbours in memory: along k of A, along j of B, or across for a stored
    // transpose.
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

template <class T, int kTile>
Launch prepare(const Problem& problem, const Operands& operands) {
    return make_launch("tiled", blocks_for_tiles(problem, kTile, kTile, dim3(kTile, kTile)), tiled<T, kTile>,
                       Arguments<T>(problem, operands));
}

}  // namespace

Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device&) {
    const int tile = parameter_number(kTiledParameters, problem, "tile");
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        if (tile == 8) return prepare<T, 8>(problem, operands);
        if (tile == 16) return prepare<T, 16>(problem, operands);
        return prepare<T, 32>(problem, operands);
    });
}

}  // namespace gpumat::multiply::gpu
