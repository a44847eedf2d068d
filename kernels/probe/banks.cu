// Reads shared memory at a stride: 32 banks of 4 bytes serve a warp at a time, and words of one bank wait for
// each other. Sixteen reads follow each other in each of 32 warps, so that neither latency nor another
// instruction is in the way; volatile, or they would be left out.
#include "kernels/probe/measure.hpp"
#include "kernels/probe/timing.cuh"

namespace gpumat::probe {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarp = 32;
constexpr int kReads = 16;
constexpr int kRounds = 128;
constexpr int kMostStride = 64;
constexpr int kLineBytes = 128;  // all banks once: reads so far apart have the same pattern
constexpr int kMostBytes = 16;

template <int BYTES>
__device__ __forceinline__ void read_shared(unsigned address) {
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d;
    if constexpr (BYTES == 4) {
        asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(a) : "r"(address));
    } else if constexpr (BYTES == 8) {
        asm volatile("ld.volatile.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address));
    } else {
        asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "r"(address));
    }
}

template <int BYTES>
__global__ void __launch_bounds__(kThreads) banks_kernel(int stride, int rounds, long long* clocks) {
    extern __shared__ __align__(128) unsigned char shared[];
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared)) +
                          threadIdx.x % kWarp * static_cast<unsigned>(stride) * BYTES;
    for (unsigned i = threadIdx.x; i < (kMostStride * kWarp * BYTES + kReads * kLineBytes) / 4;
         i += blockDim.x)
        reinterpret_cast<unsigned*>(shared)[i] = i;
    const long long begin = begin_clock();
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < kReads; ++i) read_shared<BYTES>(base + i * kLineBytes);
    }
    end_clock(begin, clocks);
}

template <int BYTES>
double clocks_of(Gpu& gpu, int stride, unsigned blocks, double* ms) {
    constexpr std::size_t kBytes = kMostStride * kWarp * BYTES + kReads * kLineBytes;
    const auto run = [&](long long* clocks, cudaStream_t stream) {
        banks_kernel<BYTES><<<blocks, kThreads, kBytes, stream>>>(stride, kRounds, clocks);
    };
    if (ms != nullptr) {
        const DeviceMemory clocks = gpu.allocate(blocks * sizeof(long long));
        *ms = best_ms(gpu, [&](cudaStream_t stream) { run(static_cast<long long*>(clocks.data()), stream); });
        return 0;
    }
    constexpr double kAccesses = static_cast<double>(kThreads / kWarp) * kReads * kRounds;
    return block_clocks(gpu, blocks, run) / kAccesses;
}

}  // namespace

double shared_access_clocks(Gpu& gpu, int element_bytes, int stride) {
    static_assert(kMostStride * kWarp * kMostBytes + kReads * kLineBytes <= 48 * 1024, "fits without asking");
    if (element_bytes == 4) return clocks_of<4>(gpu, stride, 1, nullptr);
    if (element_bytes == 8) return clocks_of<8>(gpu, stride, 1, nullptr);
    return clocks_of<16>(gpu, stride, 1, nullptr);
}

double shared_bytes_per_s(Gpu& gpu) {
    const auto blocks = static_cast<unsigned>(gpu.info().multiprocessors);
    double ms = 0;
    (void)clocks_of<16>(gpu, 1, blocks, &ms);
    return static_cast<double>(blocks) * kThreads * kMostBytes * kReads * kRounds / ms * 1e3;
}

}  // namespace gpumat::probe
