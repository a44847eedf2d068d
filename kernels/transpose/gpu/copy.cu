// transpose baseline `copy`: the matrix is copied by the plainest kernel that reaches the memory's speed.
//
// Each thread moves four words of 16 bytes, a block's width apart, all four loads before the first store: the
// bytes in flight cover the latency. Narrower words where the memory is not aligned to 16 bytes.
#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/baselines.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kThreads = 512;
constexpr int kWords = 4;  // words a thread

template <class Word>
__global__ void copy_kernel(const Word* __restrict__ in, Word* __restrict__ out, std::int64_t count) {
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kWords) + threadIdx.x;
    Word words[kWords];
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
        if (first + k * kThreads < count) words[k] = in[first + k * kThreads];
    }
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
        if (first + k * kThreads < count) out[first + k * kThreads] = words[k];
    }
}

template <class Word>
Launch launch(const Operands& operands, const Device& device, std::uint64_t bytes) {
    const std::uint64_t count = bytes / sizeof(Word);
    const std::uint64_t blocks = (count + kThreads * kWords - 1) / (kThreads * kWords);
    return make_launch("copy", device, {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads)},
                       copy_kernel<Word>, static_cast<const Word*>(operands.a),
                       static_cast<Word*>(operands.c), static_cast<std::int64_t>(count));
}

}  // namespace

Launch prepare_copy(const Problem& problem, const Operands& operands, const Device& device) {
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(problem.m) * static_cast<std::uint64_t>(problem.n) * size_of(problem.type);
    const std::uint64_t alignment =
        reinterpret_cast<std::uint64_t>(operands.a) | reinterpret_cast<std::uint64_t>(operands.c) | bytes;
    if (alignment % 16 == 0) return launch<uint4>(operands, device, bytes);
    if (alignment % 4 == 0) return launch<std::uint32_t>(operands, device, bytes);
    return launch<std::uint8_t>(operands, device, bytes);
}

}  // namespace gpumat::transpose::gpu
