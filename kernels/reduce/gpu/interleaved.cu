// reduce, GPU level `interleaved`: one element a thread, a tree in shared memory whose stride doubles.
//
// A block of 256 threads takes 256 elements (of columns: 8 elements of 32 of them). In step s thread t adds
// its neighbour at distance s where t is a multiple of 2s, so the threads that work lie ever further apart.
// What the blocks leave is reduced in the same way, pass after pass, until one number is left for each
// result.
//
// Traffic: every element is read once, plus 1/256 of as many partial results in each pass. What limits it:
// in each step every warp runs for the few of its threads that work, the remainder is a slow instruction, and
// all threads wait at eight barriers for 256 elements.
// Source: M. Harris, "Optimizing Parallel Reduction in CUDA" (2007), reduction 1.
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
    interleaved_kernel(const void* __restrict__ in, Pass pass, void* __restrict__ partials, Results results) {
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
        for (int stride = 1; stride < pass.down; stride *= 2) {
            if (row % (2 * stride) == 0) totals[t].take(totals[t + stride * pass.across]);
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

Launch prepare_interleaved(const Problem& problem, const Operands& operands, const Device& device) {
    const TreeKernels kernels = visit_accumulator(problem, []<class A>(A) -> TreeKernels {
        using Total = typename A::Total;
        return {interleaved_kernel<FromElements<A>>, interleaved_kernel<FromTotals<Total>>, sizeof(Total)};
    });
    return launch_tree("interleaved", kernels, problem, operands, device);
}

}  // namespace gpumat::reduce::gpu
