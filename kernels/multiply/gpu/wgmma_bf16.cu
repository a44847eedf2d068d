// The kernels of the level `wgmma` for bf16; wgmma.cu describes the level.
#include "kernels/multiply/gpu/wgmma_launch.cuh"

namespace gpumat::multiply::gpu {

Launch prepare_wgmma_bf16(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_wgmma_as<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
