// sparse × dense, GPU level `serial`: a thread an element of C walks along its row of A.
//
// Traffic: every entry of A is read once for each column of B, by the lanes of a warp together; each entry
// takes a piece of a row of B, of which a warp reads 32 neighbours. What limits it: one load after the other,
// of A and then of B, and rows of different lengths within a block.
//
// Source of the idea: the scalar kernel of Bell and Garland (2009).
#include "kernels/multiply/gpu/sparse/entries.cuh"
#include "kernels/multiply/gpu/sparse/levels.hpp"

namespace gpumat::multiply::gpu::sparse {
namespace {

constexpr int kThreads = 256;

template <class T, class I>
__global__ void __launch_bounds__(kThreads) element_kernel(Arguments<T> p, Rows<T, I> a) {
    const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
    for (std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; at < p.m * p.n; at += stride) {
        const std::int64_t i = at / p.n;
        const std::int64_t j = at % p.n;
        Sum<T> sum{};
        for (std::int64_t e = a.pointers[i]; e < a.pointers[i + 1]; ++e)
            sum = multiply_add(to_sum(a.values[e]), to_sum(*p.b.at(a.columns[e], j)), sum);
        p.finish(i, j, sum);
    }
}

}  // namespace

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device&) {
    return visit_sparse(problem, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
        const Geometry geometry{dim3(blocks_of(problem.m * problem.n, kThreads)), dim3(kThreads)};
        return make_launch("serial", geometry, element_kernel<T, I>, Arguments<T>(problem, operands),
                           Rows<T, I>(operands.a));
    });
}

}  // namespace gpumat::multiply::gpu::sparse
