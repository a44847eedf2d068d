// The c128 tiles of `tensor`, in a file of their own so that they compile beside the other types.
#include "kernels/multiply/gpu/tensor_launch.cuh"
#include "kernels/multiply/gpu/tensor_tiles.hpp"

namespace gpumat::multiply::gpu {

Launch prepare_tensor_c128(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_tensor_unit<ComplexUnit, Complex<double>, Complex<double>, kTensorTileC128,
                               kTensorSmallC128>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
