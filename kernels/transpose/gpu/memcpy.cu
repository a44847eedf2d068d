// transpose baseline `memcpy`: the driver's device-to-device copy of the matrix.
#include "kernels/common/cuda_check.cuh"
#include "kernels/transpose/gpu/baselines.hpp"

namespace gpumat::transpose::gpu {

Launch prepare_memcpy(const Problem& problem, const Operands& operands, const Device& device) {
    const std::size_t bytes =
        static_cast<std::size_t>(problem.m) * static_cast<std::size_t>(problem.n) * size_of(problem.type);
    auto* stream = static_cast<cudaStream_t>(device.gpu->stream());
    return {.level = "memcpy", .run = [=] {
                if (bytes == 0) return;
                GPUMAT_CUDA(cudaMemcpyAsync(operands.c, operands.a, bytes, cudaMemcpyDeviceToDevice, stream));
            }};
}

}  // namespace gpumat::transpose::gpu
