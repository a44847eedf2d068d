// The kernels of the level `wgmma` for i8, whose products are i32; wgmma.cu describes the level.
#include "kernels/multiply/gpu/wgmma_launch.cuh"

namespace gpumat::multiply::gpu {

Launch prepare_wgmma_i8(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_wgmma_as<std::int8_t, std::int8_t, std::uint32_t>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
