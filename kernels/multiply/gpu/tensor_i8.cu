// The i8 tiles of `tensor`, in a file of their own so that they compile beside the other types.
#include "kernels/multiply/gpu/tensor_launch.cuh"
#include "kernels/multiply/gpu/tensor_tiles.hpp"

namespace gpumat::multiply::gpu {

Launch prepare_tensor_i8(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_tensor_unit<NarrowUnit<std::int8_t>, std::int8_t, std::uint32_t, kTensorTile8,
                               kTensorSmall8>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
