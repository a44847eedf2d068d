#include "kernels/reduce/gpu/tree.cuh"

#include <memory>

namespace gpumat::reduce::gpu {
namespace {

constexpr std::int64_t kMostBlocks = 1 << 30;

Geometry geometry_of(const Pass& pass) {
    return {.grid = dim3(static_cast<unsigned>(std::min(pass.blocks(), kMostBlocks))),
            .block = dim3(kTreeThreads)};
}

}  // namespace

Launch launch_tree(std::string_view level, const TreeKernels& kernels, const Problem& problem,
                   const Operands& operands, const Device& device) {
    const std::vector<Pass> passes = passes_of(problem, operands.a.pitch, kTreeThreads);
    const std::size_t bytes = static_cast<std::size_t>(most_partials(passes)) * kernels.total_bytes;
    // Passes read what the one before left and write beside it.
    const auto partials = std::make_shared<DeviceMemory>(device.gpu->allocate(2 * bytes));
    const auto run = [=, in = operands.a.data, results = results_of(problem, operands.c)](Stream stream) {
        std::byte* to = static_cast<std::byte*>(partials->data());
        std::byte* from = to + bytes;
        for (std::size_t i = 0; i < passes.size(); ++i) {
            const Geometry geometry = geometry_of(passes[i]);
            void* left = i + 1 == passes.size() ? nullptr : to;
            const TreeKernel kernel = i == 0 ? kernels.of_elements : kernels.of_totals;
            kernel<<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(i == 0 ? in : from, passes[i],
                                                                              left, results);
            GPUMAT_CUDA(cudaGetLastError());
            std::swap(from, to);
        }
    };
    auto details =
        launch_details(reinterpret_cast<const void*>(kernels.of_elements), geometry_of(passes.front()));
    details.emplace_back("passes", std::to_string(passes.size()));
    return {.level = level, .run = run, .details = std::move(details), .workspace_bytes = 2 * bytes};
}

}  // namespace gpumat::reduce::gpu
