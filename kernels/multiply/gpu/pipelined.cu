// multiply, GPU level `pipelined`: register tiles fed by copies through several stages of shared memory, with
// warp tiles, and a split of k where C alone cannot fill the device.
//
// Changed since `register-blocked`: memory is copied straight to shared memory some stages ahead, so that no
// thread waits for it; fragments for the next step are read while this one computes; thread tiles of 16×12
// need 7 shared reads of 16 bytes for 192 multiply-adds, and those of 8×16 need 6 for 128. That removes the
// latency of memory and of shared memory, and most instructions that are no multiply-adds. Two kernels:
// - Operands as they lie (gpu/pipelined.cuh). Threads copy 16 bytes at a time asynchronously where they lie
//   along rows of shared memory; where they lie along k, loads of 16 bytes are taken apart in registers;
//   element-wise copies serve odd sizes and any alignment (gpu/loader.cuh).
// - Packed operands (gpu/packed.cuh), from compute capability 9.0 on. Both operands are first copied so that
//   they lie k by k at 16-byte rows, as one does before a multiply on a CPU, unless they lie so already; then
//   the warps take turns at having the copy engine fetch whole tiles, and only the one whose turn it is waits
//   for the others. The inner loop has nothing but multiply-adds and reads of fragments, and no bounds, so
//   odd sizes cost what even ones do. It is short, two to eight k long, so that it stays in the instruction
//   caches.
// The multiply-adds of a step go back and forth along a column or a row of the thread tile, so that each
// reads its sum and one new operand, and the other comes from the reuse cache: two banks of registers give
// no more a clock. Sums leave the loop word by word, so that the compiler is free to spread them over the
// banks. Packed tiles go to as many blocks as run at once: whole ones, and equal runs in k of those that
// are left; where that does not pay, every tile has a block, or several. Operands as they lie have a block
// for every tile, and the tiles of the last wave are split along k (all of them where C is small). A second
// kernel adds the parts up in a fixed order, so the bits of the result depend on device, shape and layout
// only. Traffic: a tile of bm×bn loads bm + bn elements for bm·bn multiply-adds, 32 flops a byte at
// 128×128; packing reads and writes an operand once more. Limited by: issue slots. A scheduler starts one
// instruction a clock and a warp's multiply-add fills it, so the rate is at most the share of multiply-adds
// among the instructions (95 % in the packed loop), less the clock or so by which every read of shared
// memory holds up the registers (5 %). 32-bit integers have half as many multipliers.
//
// Idea: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008); Goto and van de Geijn,
// "Anatomy of high-performance matrix multiplication" (2008) for packing; NVIDIA, CUDA C++ Programming
// Guide, asynchronous data copies; Osama et al., "Stream-K" (2023) for the last wave.
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/pipelined_choice.cuh"

namespace gpumat::multiply::gpu {

Reasons pipelined_unsupported(const Problem& problem, const Operands&, const Device& device) {
    const std::string_view choice = parameter_choice(kPipelinedParameters, problem, "pack");
    if (choice == kPackAuto || choice == kPackNever) return {};
    const int pack = parameter_number(kPipelinedParameters, problem, "pack");
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_same_v<T, float>) {
            return packed_unsupported<T, kPackedF32>(problem, device, pack);
        } else if constexpr (sizeof(Sum<T>) == 4) {
            return packed_unsupported<T, kPacked32>(problem, device, pack);
        } else if constexpr (std::is_same_v<T, Complex<float>>) {
            return packed_unsupported<T, kPackedC64>(problem, device, pack);
        } else if constexpr (sizeof(Sum<T>) == 8) {
            return packed_unsupported<T, kPacked64>(problem, device, pack);
        } else {
            return packed_unsupported<T, kPacked128>(problem, device, pack);
        }
    });
}

Launch prepare_pipelined(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_same_v<T, float>) {
            return prepare_pipelined_f32(problem, operands, device);
        } else if constexpr (sizeof(Sum<T>) == 4) {
            return prepare_pipelined_as<T, kTiles32, kPacked32>(problem, operands, device);
        } else if constexpr (std::is_same_v<T, Complex<float>>) {
            return prepare_pipelined_as<T, kTiles64, kPackedC64>(problem, operands, device);
        } else if constexpr (sizeof(Sum<T>) == 8) {
            return prepare_pipelined_as<T, kTiles64, kPacked64>(problem, operands, device);
        } else {
            return prepare_pipelined_as<T, kTiles128, kPacked128>(problem, operands, device);
        }
    });
}

}  // namespace gpumat::multiply::gpu
