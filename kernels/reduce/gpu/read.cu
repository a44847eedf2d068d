// reduce baseline `read`, GPU: every byte is read in words of 16 bytes, eight of them on their way a thread,
// and combined by exclusive or. The blocks are as many as run at a time; the last of them to be done combines
// what all have left. The reads leave no trace in L1.
#include <memory>

#include "kernels/common/access.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/reduce/gpu/levels.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce::gpu {
namespace {

using Word64 = unsigned long long;

constexpr int kThreads = 512;
constexpr int kWarp = 32;
constexpr int kInFlight = 8;
constexpr std::int64_t kWordBytes = 16;

__device__ __forceinline__ Word64 folded(const uint4& word) {
    const Word64 low = word.x ^ word.z;
    const Word64 high = word.y ^ word.w;
    return high << 32U | low;
}

/// The exclusive or of all threads of the block, for thread 0.
__device__ Word64 combine_block(Word64 mine) {
    __shared__ Word64 of_warps[kThreads / kWarp];
    for (int distance = kWarp / 2; distance > 0; distance /= 2)
        mine ^= __shfl_down_sync(0xffffffffU, mine, distance);
    __syncthreads();  // what the last call left has been read
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
    __syncthreads();  // every warp's word is there
    Word64 all = 0;
    if (threadIdx.x == 0) {
        for (const Word64 word : of_warps) all ^= word;
    }
    return all;
}

__global__ void __launch_bounds__(kThreads)
    read_kernel(const std::byte* __restrict__ in, std::int64_t bytes, Word64* partials, unsigned* ticket,
                Word64* out, int out_words) {
    __shared__ bool last;
    const auto* words = reinterpret_cast<const uint4*>(in);
    const std::int64_t count = bytes / kWordBytes;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
    std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    Word64 mine = 0;
    for (; i + (kInFlight - 1) * step < count; i += kInFlight * step) {
        uint4 loaded[kInFlight];
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) loaded[k] = load_word<Cache::once>(words + i + k * step);
#pragma unroll
        for (int k = 0; k < kInFlight; ++k) mine ^= folded(loaded[k]);
    }
    for (; i < count; i += step) mine ^= folded(load_word<Cache::once>(words + i));
    if (blockIdx.x == 0) {  // the bytes that fill no word
        for (std::int64_t at = count * kWordBytes + threadIdx.x; at < bytes; at += kThreads)
            mine ^= static_cast<Word64>(in[at]) << 8U * static_cast<unsigned>(at % 8);
    }
    mine = combine_block(mine);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = mine;
        __threadfence();  // the word is seen by whoever sees the ticket
        last = atomicAdd(ticket, 1U) == gridDim.x - 1;
    }
    __syncthreads();  // all threads know whether this block is the last
    if (!last) return;
    __threadfence();  // the others' words are seen
    Word64 all = 0;
    for (unsigned block = threadIdx.x; block < gridDim.x; block += kThreads) all ^= __ldcg(partials + block);
    all = combine_block(all);
    if (threadIdx.x != 0) return;
    out[0] = all;
    for (int word = 1; word < out_words; ++word) out[word] = 0;
    *ticket = 0;  // for the next run
}

}  // namespace

Launch prepare_read(const Problem& problem, const Operands& operands, const Device& device) {
    const auto* kernel = reinterpret_cast<const void*>(read_kernel);
    int resident = 0;
    GPUMAT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads, 0));
    const auto blocks = static_cast<unsigned>(resident * device.gpu->info().multiprocessors);
    const auto memory =
        std::make_shared<DeviceMemory>(device.gpu->allocate((blocks + std::size_t{1}) * sizeof(Word64)));
    device.gpu->fill(memory->data(), 0, memory->bytes());
    device.gpu->synchronize();
    auto* ticket = static_cast<unsigned*>(memory->data());
    auto* partials = static_cast<Word64*>(memory->data()) + 1;
    const std::int64_t bytes = problem.m * problem.n * static_cast<std::int64_t>(size_of(problem.type));
    const int out_words = static_cast<int>(size_of(result_type(problem)) / sizeof(Word64));
    const Geometry geometry = {.grid = dim3(blocks), .block = dim3(kThreads)};
    return {.level = "read",
            .run =
                [=, in = operands.a.as<std::byte>(), out = operands.c.as<Word64>()](Stream stream) {
                    (void)memory;  // lives as long as the launch
                    read_kernel<<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(
                        in, bytes, partials, ticket, out, out_words);
                    GPUMAT_CUDA(cudaGetLastError());
                },
            .details = launch_details(kernel, geometry),
            .workspace_bytes = memory->bytes()};
}

}  // namespace gpumat::reduce::gpu
