// The kernels of the level `wgmma` for f16; wgmma.cu describes the level.
#include "kernels/multiply/gpu/wgmma_launch.cuh"

namespace gpumat::multiply::gpu {

Launch prepare_wgmma_f16(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_wgmma_as<__half, __half, __half>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
