// `tensor` for f32 that is computed in fewer bits, in a file of its own so that it compiles beside the other
// types.
#include "kernels/multiply/gpu/tensor_launch.cuh"
#include "kernels/multiply/gpu/tensor_tiles.hpp"

namespace gpumat::multiply::gpu {

Launch prepare_tensor_f32(const Problem& problem, const Operands& operands, const Device& device) {
    const std::string& factors = problem.choices.find("compute")->second;
    if (factors == "tf32")
        return prepare_tensor_unit<NarrowUnit<Tf32>, float, float, kTensorTile32, kTensorSmall32>(
            problem, operands, device);
    if (factors == "bf16")
        return prepare_tensor_unit<NarrowUnit<__nv_bfloat16>, float, float, kTensorTile16, kTensorSmall16>(
            problem, operands, device);
    return prepare_tensor_unit<NarrowUnit<__half>, float, float, kTensorTile16, kTensorSmall16>(
        problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
