// multiply, GPU level `pipelined`: register tiles fed by asynchronous copies through several stages of
// shared memory, with warp tiles, and a split of k where C alone cannot fill the device.
//
// Changed since `register-blocked`: memory is copied straight to shared memory some stages ahead, so that no
// thread waits for it; fragments for the next step are read while this one computes; copies are spread over
// the steps; thread tiles of 8×16 need 6 shared reads of 16 bytes for 128 multiply-adds. That removes the
// latency of memory and of shared memory, and most instructions that are no multiply-adds.
// Both tiles are kept k by k. An operand that lies so in memory comes in asynchronous 16-byte copies; one
// that lies along k comes in 16-byte loads that are taken apart in registers; element-wise copies serve odd
// sizes, any alignment and the rest (gpu/loader.cuh). The multiply-adds of a step go back and forth along a
// column of the thread tile, so that each reads its sum and one new operand, and the other comes from the
// reuse cache: two banks of registers give no more a clock. Tiles that do not fill the last wave of blocks
// are split along k (all of them where C is small); a second kernel adds the parts up in a fixed order, so
// the bits of the result depend on the device and the shape only. Traffic: a tile of bm×bn loads bm + bn
// elements for bm·bn multiply-adds; 43 flops a byte at 128×256. Limited by: issue slots. A scheduler starts
// one instruction a clock and a warp's multiply-add fills it, so the rate is at most the share of
// multiply-adds among the instructions (91 % in the inner loop), less what register banks hold up. A stage 8
// deep keeps the loop within the instruction cache; 16 do not. 32-bit integers have half as many multipliers.
// Idea: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008); NVIDIA, CUDA C++
// Programming Guide, asynchronous data copies; Osama et al., "Stream-K" (2023) for the last wave.
#include "kernels/multiply/gpu/pipelined.cuh"

#include "kernels/multiply/gpu/levels.hpp"

namespace gpumat::multiply::gpu {

Launch prepare_pipelined(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_same_v<T, float>) {
            return prepare_pipelined_f32(problem, operands, device);
        } else if constexpr (sizeof(Sum<T>) == 4) {
            return prepare_pipelined_as<T, kTiles32>(problem, operands, device);
        } else if constexpr (sizeof(Sum<T>) == 8) {
            return prepare_pipelined_as<T, kTiles64>(problem, operands, device);
        } else {
            return prepare_pipelined_as<T, kTiles128>(problem, operands, device);
        }
    });
}

}  // namespace gpumat::multiply::gpu
