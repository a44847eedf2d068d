// transpose baseline `copy`: the matrix is copied by the plainest kernel that reaches the memory's speed.
//
// Each thread moves one word of 16 bytes (narrower where the memory is not aligned to that). Small blocks
// with little in flight a thread are the fastest: the blocks that run at a time then cover a short run of
// memory on both sides, and device memory spends less time on changing pages and direction.
#include <algorithm>
#include <cstdint>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/baselines.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kThreads = 256;

/// The first block also copies the `tail` bytes behind the words.
template <class Word>
__global__ void copy_kernel(const Word* __restrict__ in, Word* __restrict__ out, std::int64_t count,
                            unsigned tail) {
    const std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (k < count) out[k] = in[k];
    if (k < tail)
        reinterpret_cast<std::uint8_t*>(out + count)[k] =
            reinterpret_cast<const std::uint8_t*>(in + count)[k];
}

template <class Word>
Launch launch(const Operands& operands, const Device& device, std::uint64_t bytes) {
    const std::uint64_t count = bytes / sizeof(Word);
    const std::uint64_t blocks = std::max<std::uint64_t>((count + kThreads - 1) / kThreads, 1);
    return make_launch("copy", device, {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads)},
                       copy_kernel<Word>, static_cast<const Word*>(operands.a),
                       static_cast<Word*>(operands.c), static_cast<std::int64_t>(count),
                       static_cast<unsigned>(bytes % sizeof(Word)));
}

}  // namespace

Launch prepare_copy(const Problem& problem, const Operands& operands, const Device& device) {
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(problem.m) * static_cast<std::uint64_t>(problem.n) * size_of(problem.type);
    const std::uint64_t alignment =
        reinterpret_cast<std::uint64_t>(operands.a) | reinterpret_cast<std::uint64_t>(operands.c);
    if (alignment % 16 == 0) return launch<uint4>(operands, device, bytes);
    if (alignment % 4 == 0) return launch<std::uint32_t>(operands, device, bytes);
    return launch<std::uint8_t>(operands, device, bytes);
}

}  // namespace gpumat::transpose::gpu
