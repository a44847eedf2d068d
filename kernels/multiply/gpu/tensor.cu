// multiply, GPU level `tensor`: the matrix unit of each multiprocessor, fed by the warps.
//
// Changed since `pipelined`: a warp multiplies small matrices with one instruction (mma.sync: 16 rows of A, 8
// columns of B, 32 bytes of k; for f64 8 of k) in place of a multiply-add a thread. That removes the issue
// slots of the multiply-adds, which limited `pipelined`: an instruction stands for 2048 of them in f16. All
// else is known: asynchronous copies through a ring of stages (gpu/tensor.cuh), fragments in registers that
// are read ahead, a warp tile of 64×64 sums (f64: 64×32; 32×32 where C is small), and the schedule of
// `pipelined`, shares of tiles with partial sums that a second kernel adds in a fixed order.
//
// What is new is how fragments lie. The instruction says which lane holds which elements, so a warp reads
// shared memory across rows, and rows that start 128 bytes apart start in the same bank. The 16-byte pieces
// of a line are therefore written in another order in every line (swizzled), so that the pieces that are read
// at once lie in different banks. Elements of up to 4 bytes are read by `ldmatrix`, which deals out 8×8
// matrices as the instruction wants them and can transpose them if elements have 2 bytes: f16 and bf16 are
// taken as they lie in all four transpose cases. f64 and c128, which is four real products, are read 16 bytes
// at a time; which k and which row the instruction takes them for is free, and chosen so that this works in
// all four cases too. What is left is packed first (gpu/pack_rows.cuh): i8 across k, f32 of which fewer
// bits are asked for, and operands whose lines are no multiples of 16 bytes. No bounds are checked in the
// loop: copies write zeros for what is outside. Copies are started one by one between products: started
// together they kept the matrix unit waiting for a sixth of the time (f64, 4096³, NVIDIA H100: 49.7 TFLOP/s,
// then 58.7).
//
// Arithmetic: products of f16, bf16 and tf32 are exact, and sums are f32 that tensor cores cut off instead of
// rounding. i8 is added up exactly in i32, which wraps. f64 is a chain of fused multiply-adds; order of
// additions aside it is what cores compute. Traffic: 128×256 tiles bring 384 elements for 32768
// multiply-adds, 85 flops for an element. Limited by: 16-bit types, on Hopper, by the instruction itself,
// which reaches 0.63 of what four warps together reach (the next level), on older devices by the matrix unit;
// f64 by the matrix unit.
//
// Idea: NVIDIA, PTX ISA, "Warp-level matrix instructions"; Thakkar et al., CUTLASS (2017 on), for multistage
// copies; Abdelfattah, Tomov and Dongarra (2020) for f64 on them; Fasi et al., "Numerical behavior of NVIDIA
// tensor cores" (2021).
#include "kernels/common/launch.cuh"
#include "kernels/multiply/gpu/levels.hpp"

namespace gpumat::multiply::gpu {

Reasons tensor_unsupported(const Problem& problem, const Operands&, const Device& device) {
    constexpr int kCapability = 80;
    Reasons reasons;
    if (problem.type == Type::f32 && !problem.choices.contains("compute"))
        reasons.emplace_back("f32 is computed in f32 unless --compute says tf32, bf16 or f16");
    if (problem.type == Type::i8 && result_type(problem) != Type::i32)
        reasons.emplace_back("products of i8 are added up in i32, and the result is to be i8 (--result i32)");
    if (device.gpu->info().compute_capability >= kCapability && code_capability() < kCapability)
        reasons.emplace_back("this build has no code for compute capability 8.0, which tensor cores need");
    return reasons;
}

Launch prepare_tensor(const Problem& problem, const Operands& operands, const Device& device) {
    switch (problem.type) {
        case Type::f16:
            return prepare_tensor_f16(problem, operands, device);
        case Type::bf16:
            return prepare_tensor_bf16(problem, operands, device);
        case Type::f32:
            return prepare_tensor_f32(problem, operands, device);
        case Type::f64:
            return prepare_tensor_f64(problem, operands, device);
        case Type::c128:
            return prepare_tensor_c128(problem, operands, device);
        case Type::i8:
            return prepare_tensor_i8(problem, operands, device);
        default:
            __builtin_unreachable();  // the table's type list refuses every other type first
    }
}

}  // namespace gpumat::multiply::gpu
