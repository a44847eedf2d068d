// The kernels of the level `wgmma` for f32 in a lower precision; wgmma.cu describes the level.
#include "kernels/multiply/gpu/wgmma_launch.cuh"

namespace gpumat::multiply::gpu {

Launch prepare_wgmma_f32(const Problem& problem, const Operands& operands, const Device& device) {
    const Factors factors = factors_of(problem);
    if (factors == Factors::bf16)
        return prepare_wgmma_as<float, __nv_bfloat16, float>(problem, operands, device);
    if (factors == Factors::f16) return prepare_wgmma_as<float, __half, float>(problem, operands, device);
    return prepare_wgmma_as<float, Tf32, float>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
