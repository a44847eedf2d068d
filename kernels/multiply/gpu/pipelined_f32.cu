// The f32 tiles of `pipelined`, in a file of their own so that they compile beside the other types.
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/pipelined_choice.cuh"

namespace gpumat::multiply::gpu {

Launch prepare_pipelined_f32(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_pipelined_as<float, kTilesF32, kPackedF32>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
