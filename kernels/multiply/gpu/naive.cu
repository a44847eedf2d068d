// multiply, GPU level `naive`: one thread an element of C, blocks of 128×1 (or 16×16), so that a warp
// walks along a row of C.
//
// Changed since `naive-strided`: only the block's shape. The 32 lanes of a warp now share one element of A
// and read 32 neighbours of a row of B: one transaction instead of 32. That removes the uncoalesced access.
// A block of 16×16 trades some of that coalescing for reuse of A and B in the L1 cache.
// Traffic: still 2 elements for every multiply-add, 1/4 flop a byte in f32 (4.8 TB/s would give
// 1.2 TFLOP/s); what is faster than that comes out of the L1 and L2 caches.
// Limited by: loads, two for each multiply-add.
// Where op(B) is a stored transpose, neighbours along a row of op(B) are a row of B apart and B is read
// as `naive-strided` reads A.
// Idea: NVIDIA, CUDA C++ Best Practices Guide, coalesced access to global memory.
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

template <class T>
__global__ void __launch_bounds__(256) naive(Arguments<T> p) {
    const std::int64_t tiles_n = divide_up<std::int64_t>(p.n, blockDim.x);
    const std::int64_t tiles_m = divide_up<std::int64_t>(p.m, blockDim.y);
    for (std::int64_t tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
        const std::int64_t i = tile / tiles_n * blockDim.y + threadIdx.y;
        const std::int64_t j = tile % tiles_n * blockDim.x + threadIdx.x;
        if (i >= p.m || j >= p.n) continue;
        const T* a = p.a.at(i, 0);
        const T* b = p.b.at(0, j);
        Sum<T> sum{};
        for (std::int64_t k = 0; k < p.k; ++k, a += p.a.col, b += p.b.row) {
            sum = multiply_add(to_sum(*a), to_sum(*b), sum);
        }
        p.finish(i, j, sum);
    }
}

}  // namespace

Launch prepare_naive(const Problem& problem, const Operands& operands, const Device&) {
    const bool square = parameter_number(kNaiveParameters, problem, "block") == 16;
    const dim3 block = square ? dim3(16, 16) : dim3(128, 1);
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch(
            "naive", blocks_for_tiles(problem, static_cast<int>(block.y), static_cast<int>(block.x), block),
            naive<T>, Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
