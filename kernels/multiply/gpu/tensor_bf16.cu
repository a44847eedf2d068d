// The bf16 tiles of `tensor`, in a file of their own so that they compile beside the other types.
#include "kernels/multiply/gpu/tensor_launch.cuh"
#include "kernels/multiply/gpu/tensor_tiles.hpp"

namespace gpumat::multiply::gpu {

Launch prepare_tensor_bf16(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_tensor_unit<NarrowUnit<__nv_bfloat16>, __nv_bfloat16, __nv_bfloat16, kTensorTile16,
                               kTensorSmall16>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
