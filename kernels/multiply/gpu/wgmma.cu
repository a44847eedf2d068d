// multiply, GPU level `wgmma`: Hopper's matrix units, which read both operands from shared memory, fed by its
// copy engine.
//
// Changed since `tensor`: four warps together start an instruction that multiplies 64 rows by up to 256
// columns, straight from shared memory, and go on; operands no longer pass through registers, which hold
// nothing but sums. One warp does nothing but ask the copy engine for tiles, four or more stages ahead, and
// gives its registers to the warps that multiply. Two blocks, one above the other, share every tile of B:
// each brings a half for both. As many blocks stay as the device holds; they walk over the tiles of C in
// bands of rows, so that tiles that are worked on at a time share operands in L2. A finished tile leaves
// through shared memory by the copy engine, while the next one is multiplied. That removes the instructions
// that move operands, and half of their traffic.
//
// Operands lie in shared memory in rows of 128 bytes with the swizzle of the copy engine, which the matrix
// units know: along k, or for 16-bit factors along m or n, so that all four cases of transposition are read
// as they lie. Other types, and rows that do not start at multiples of 16 bytes, are copied first
// (pack_rows.cuh); edges are the copy engine's: what it reads outside is 0, and what lies outside is not
// written. Where C has too few tiles for the device, k is split into runs, whose sums a second kernel adds up
// in their order: the bits of a result depend on shape, layout and device only.
//
// Traffic: a tile of 128×256 reads 384 elements for 32768 multiply-adds a step of k, 43 bytes a clock from
// L2. Limited by: power. The units would do 4096 multiply-adds a clock; on random data the device lowers its
// clock until that is some 750 TFLOP/s.
//
// Idea: Shah et al., "FlashAttention-3" (2024) for producers and consumers; NVIDIA, CUTLASS 3 and the PTX ISA
// manual, "asynchronous warpgroup level matrix instructions".
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/launch.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/wgmma_tuning.hpp"
#include "kernels/multiply/operation.hpp"

namespace gpumat::multiply::gpu {
namespace {

/// Compiled for another number of threads where the code has the instructions of 9.0a.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__global__ void __launch_bounds__(64) has_matrix_units() {}
#else
__global__ void __launch_bounds__(32) has_matrix_units() {}
#endif

bool code_has_matrix_units() {
    cudaFuncAttributes attributes{};
    GPUMAT_CUDA(cudaFuncGetAttributes(&attributes, has_matrix_units));
    return attributes.maxThreadsPerBlock == 64;
}

}  // namespace

Reasons wgmma_unsupported(const Problem& problem, const Operands&, const Device& device) {
    constexpr int kCapability = 90;
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - 512;
    Reasons reasons = result_reasons(problem);
    if (device.gpu->info().compute_capability != kCapability) {
        reasons.emplace_back("its instructions are those of compute capability 9.0 alone");
    } else if (!code_has_matrix_units()) {
        reasons.emplace_back("this build has no code for 90a, whose instructions it needs");
    }
    if (problem.type == Type::f32 && factors_of(problem) == Factors::own)
        reasons.emplace_back("f32 is computed in f32 unless --compute says tf32, bf16 or f16");
    if (std::max({problem.m, problem.n, problem.k}) > kMost)
        reasons.emplace_back("tensor maps count to 2^31, and an extent is larger");
    const int factor_bytes = problem.type == Type::i8 ? 1 : factors_of(problem) == Factors::tf32 ? 4 : 2;
    const bool empty = problem.m == 0 || problem.n == 0 || problem.k == 0;
    if (!empty && std::isinf(plan_wgmma(problem, factor_bytes, device.gpu->info().multiprocessors).clocks))
        reasons.emplace_back("there is not enough of k to divide it so");
    return reasons;
}

Launch prepare_wgmma(const Problem& problem, const Operands& operands, const Device& device) {
    switch (problem.type) {
        case Type::f16:
            return prepare_wgmma_f16(problem, operands, device);
        case Type::bf16:
            return prepare_wgmma_bf16(problem, operands, device);
        case Type::f32:
            return prepare_wgmma_f32(problem, operands, device);
        default:
            return prepare_wgmma_i8(problem, operands, device);
    }
}

}  // namespace gpumat::multiply::gpu
