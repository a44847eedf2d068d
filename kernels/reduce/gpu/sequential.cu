// reduce, GPU level `sequential`: the tree of `interleaved` with a stride that halves.
//
// New: in a step of stride s the first s threads add the number at distance s. The threads that work are
// neighbours, so whole warps work or are done, until less than one is left; and their accesses to shared
// memory are neighbours, too. It removes the divergence in every warp, and the remainder.
//
// Traffic: as `interleaved`. What limits it: half of the threads do nothing from the first step on, and all
// wait at eight barriers for 256 elements: one element in flight a thread.
// Source: M. Harris, "Optimizing Parallel Reduction in CUDA" (2007), reduction 3.
//
// Blocks that exceed the grid are reached by striding. The tree depends on the shape alone, and so do the
// bits of the result.
#include "kernels/reduce/gpu/levels.hpp"
#include "kernels/reduce/gpu/tree.cuh"

namespace gpumat::reduce::gpu {
namespace {

/// Thread t of a block: column t % across, row t / across.
template <class From>
__global__ void __launch_bounds__(kTreeThreads)
    sequential_kernel(const void* __restrict__ in, Pass pass, void* __restrict__ partials, Results results) {
    using Total = typename From::Total;
    __shared__ __align__(16) unsigned char shared[kTreeThreads * sizeof(Total)];
    Total* totals = reinterpret_cast<Total*>(shared);
    const int t = static_cast<int>(threadIdx.x);
    const int row = t / pass.across;
    const std::int64_t parts = pass.parts();
    for (std::int64_t block = blockIdx.x; block < pass.blocks(); block += gridDim.x) {
        const std::int64_t part = block % parts;
        const std::int64_t segment = block / parts * pass.across + t % pass.across;
        const std::int64_t element = part * pass.down + row;
        const bool inside = segment < pass.segments && element < pass.length;
        const std::int64_t offset = segment * pass.segment_step + element * pass.step;
        totals[t] = inside ? From::at(in, offset, results.ending.mirror) : Total{};
        __syncthreads();  // every number is there before the first addition
        for (int stride = pass.down / 2; stride > 0; stride /= 2) {
            if (row < stride) totals[t].take(totals[t + stride * pass.across]);
            __syncthreads();  // the step's sums are there before the next step reads them
        }
        if (row == 0 && segment < pass.segments) {
            if (partials == nullptr) {
                results.store(segment, totals[t]);
            } else {
                static_cast<Total*>(
                    partials)[pass.across == 1 ? segment * parts + part : part * pass.segments + segment] =
                    totals[t];
            }
        }
        __syncthreads();  // the sums are read before the next numbers overwrite them
    }
}

}  // namespace

Launch prepare_sequential(const Problem& problem, const Operands& operands, const Device& device) {
    const TreeKernels kernels = visit_accumulator(problem, []<class A>(A) -> TreeKernels {
        using Total = typename A::Total;
        return {sequential_kernel<FromElements<A>>, sequential_kernel<FromTotals<Total>>, sizeof(Total)};
    });
    return launch_tree("sequential", kernels, problem, operands, device);
}

}  // namespace gpumat::reduce::gpu
