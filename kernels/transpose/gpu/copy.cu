// transpose baselines `copy` and `copy-kept`: the matrix is copied by the plainest kernel that reaches the
// memory's speed, and by the same kernel with a word to L2.
//
// Each thread moves one word of 16 bytes (narrower where the memory is not aligned to that). Small blocks
// with little in flight a thread are the fastest: the blocks that run at a time then cover a short run of
// memory on both sides, and device memory spends less time on changing pages and direction.
//
// `copy-kept` asks L2 to give up last what is read. What is written then leaves L2 early and in order, it
// seems, which device memory takes faster: of all kernels that were measured on an H200 this one moves large
// matrices the fastest. Below compute capability 8.0 it is `copy`.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/common/access.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/baselines.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr int kThreads = 256;

/// The first block also copies the `tail` bytes behind the words.
template <class Word, Cache LOAD>
__global__ void copy_kernel(const Word* __restrict__ in, Word* __restrict__ out, std::int64_t count,
                            unsigned tail) {
    const std::int64_t k = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (k < count) out[k] = load_word<LOAD>(in + k);
    if (k < tail)
        reinterpret_cast<std::uint8_t*>(out + count)[k] =
            reinterpret_cast<const std::uint8_t*>(in + count)[k];
}

template <class Word, Cache LOAD>
Launch launch(std::string_view level, const Operands& operands, std::uint64_t bytes) {
    const std::uint64_t count = bytes / sizeof(Word);
    const std::uint64_t blocks = std::max<std::uint64_t>((count + kThreads - 1) / kThreads, 1);
    return make_launch(level, {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads)},
                       copy_kernel<Word, LOAD>, operands.a.as<Word>(), operands.c.as<Word>(),
                       static_cast<std::int64_t>(count), static_cast<unsigned>(bytes % sizeof(Word)));
}

template <Cache LOAD>
Launch prepare(std::string_view level, const Problem& problem, const Operands& operands) {
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(problem.m) * static_cast<std::uint64_t>(problem.n) * size_of(problem.type);
    const std::uint64_t alignment =
        reinterpret_cast<std::uint64_t>(operands.a.data) | reinterpret_cast<std::uint64_t>(operands.c.data);
    if (alignment % 16 == 0) return launch<uint4, LOAD>(level, operands, bytes);
    if (alignment % 4 == 0) return launch<std::uint32_t, LOAD>(level, operands, bytes);
    return launch<std::uint8_t, LOAD>(level, operands, bytes);
}

}  // namespace

Launch prepare_copy(const Problem& problem, const Operands& operands, const Device&) {
    return prepare<Cache::normal>("copy", problem, operands);
}

Launch prepare_copy_kept(const Problem& problem, const Operands& operands, const Device&) {
    return prepare<Cache::keep>("copy-kept", problem, operands);
}

}  // namespace gpumat::transpose::gpu
