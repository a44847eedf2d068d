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
#include <memory>

#include "kernels/common/launch.cuh"
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/gpu/levels.hpp"
#include "kernels/reduce/gpu/passes.hpp"

namespace gpumat::reduce::gpu {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1 << 30;

/// The element or partial result at an offset, as a total.
template <class R, class In>
__device__ typename R::Total total_at(const In* in, std::int64_t offset) {
    if constexpr (std::is_same_v<In, typename R::Total>) {
        return in[offset];
    } else {
        typename R::Total total;
        ScalarRun<R> run;
        run.add(element_at<R>(in + offset));
        total.take(run);
        return total;
    }
}

/// Thread t of a block: column t % across, row t / across. Leaves partial results, or in the last pass, which
/// has no place for them, the results.
template <class R, class In>
__global__ void __launch_bounds__(kThreads)
    sequential_kernel(const In* __restrict__ in, Pass pass, typename R::Total* __restrict__ partials,
                      Results<R> results) {
    using Total = typename R::Total;
    __shared__ __align__(16) unsigned char shared[kThreads * sizeof(Total)];
    Total* totals = reinterpret_cast<Total*>(shared);
    const int t = static_cast<int>(threadIdx.x);
    const int row = t / pass.across;
    const std::int64_t parts = pass.parts();
    for (std::int64_t block = blockIdx.x; block < pass.blocks(); block += gridDim.x) {
        const std::int64_t part = block % parts;
        const std::int64_t segment = block / parts * pass.across + t % pass.across;
        const std::int64_t element = part * pass.down + row;
        const bool inside = segment < pass.segments && element < pass.length;
        totals[t] = inside ? total_at<R>(in, segment * pass.segment_step + element * pass.step) : Total{};
        __syncthreads();  // every number is there before the first addition
        for (int stride = pass.down / 2; stride > 0; stride /= 2) {
            if (row < stride) totals[t].take(totals[t + stride * pass.across]);
            __syncthreads();  // the step's sums are there before the next step reads them
        }
        if (row == 0 && segment < pass.segments) {
            if (partials == nullptr) {
                results.store(segment, totals[t]);
            } else {
                partials[pass.across == 1 ? segment * parts + part : part * pass.segments + segment] =
                    totals[t];
            }
        }
        __syncthreads();  // the sums are read before the next numbers overwrite them
    }
}

Geometry geometry_of(const Pass& pass) {
    return {.grid = dim3(static_cast<unsigned>(std::min(pass.blocks(), kMostBlocks))),
            .block = dim3(kThreads)};
}

template <class R, class T>
Launch launch(const Problem& problem, const Operands& operands, const Device& device) {
    using Total = typename R::Total;
    const std::vector<Pass> passes = passes_of(problem, operands.a.pitch, kThreads);
    const std::size_t bytes = static_cast<std::size_t>(most_partials(passes)) * sizeof(Total);
    // Passes read what the one before left and write beside it.
    const auto partials = std::make_shared<DeviceMemory>(device.gpu->allocate(2 * bytes));
    const Results<R> results(problem, operands.c);
    const auto run = [=, in = operands.a.as<T>()](Stream stream) {
        auto* half = static_cast<Total*>(partials->data());
        Total* to = half;
        Total* from = half + bytes / sizeof(Total);
        for (std::size_t i = 0; i < passes.size(); ++i) {
            const Pass& pass = passes[i];
            const Geometry geometry = geometry_of(pass);
            Total* left = i + 1 == passes.size() ? nullptr : to;
            if (i == 0) {
                sequential_kernel<R, T>
                    <<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(in, pass, left, results);
            } else {
                sequential_kernel<R, Total>
                    <<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(from, pass, left, results);
            }
            GPUMAT_CUDA(cudaGetLastError());
            std::swap(from, to);
        }
    };
    auto details =
        launch_details(reinterpret_cast<const void*>(sequential_kernel<R, T>), geometry_of(passes.front()));
    details.emplace_back("passes", std::to_string(passes.size()));
    return {.level = "sequential", .run = run, .details = std::move(details), .workspace_bytes = 2 * bytes};
}

}  // namespace

Launch prepare_sequential(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_reducer(
        problem, [&]<class R, class T>(R, TypeTag<T>) { return launch<R, T>(problem, operands, device); });
}

}  // namespace gpumat::reduce::gpu
