// multiply, GPU level `naive-strided`: one thread an element of C, blocks of 1×128, so that a warp walks
// down a column of C.
//
// The first rung. Each thread runs the textbook loop over k. In every step the 32 lanes of a warp need 32
// elements of one column of A, each in a memory transaction of its own, and share one element of B; in the
// end they write 32 elements of one column of C.
// Traffic: 2 elements for every multiply-add, which is 1/4 flop a byte in f32, and each element of A drags
// a 32-byte sector along, so 1/16 flop a byte for what really moves unless the caches keep it.
// Limited by: transactions; the lanes' requests do not coalesce.
// Idea: NVIDIA, CUDA C++ Best Practices Guide, coalesced access to global memory.
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {
namespace {

constexpr int kRows = 128;  // rows of C a block, one a thread

template <class T>
__global__ void __launch_bounds__(kRows) naive_strided(Arguments<T> p) {
    const std::int64_t tiles_m = divide_up<std::int64_t>(p.m, kRows);
    for (std::int64_t tile = blockIdx.x; tile < tiles_m * p.n; tile += gridDim.x) {
        const std::int64_t i = tile % tiles_m * kRows + threadIdx.y;
        const std::int64_t j = tile / tiles_m;
        if (i >= p.m) continue;
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

Launch prepare_naive_strided(const Problem& problem, const Operands& operands, const Device&) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("naive-strided", blocks_for_tiles(problem, kRows, 1, dim3(1, kRows)),
                           naive_strided<T>, Arguments<T>(problem, operands));
    });
}

}  // namespace gpumat::multiply::gpu
