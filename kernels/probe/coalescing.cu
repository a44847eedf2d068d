// Copies words that lie apart, or beside the alignment of lines: what a warp touches beyond what it uses
// costs bandwidth. One word a thread, as the first rungs of the ladders move them.
#include "kernels/probe/cpu.hpp"
#include "kernels/probe/measure.hpp"
#include "kernels/probe/timing.cuh"

namespace gpumat::probe {
namespace {

constexpr std::int64_t kWords = std::int64_t{1} << 26;  // of each side: several times what an L2 holds
constexpr int kThreads = 256;

__global__ void strided_copy_kernel(const float* __restrict__ in, float* __restrict__ out, std::int64_t count,
                                    int stride, int offset) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) out[i * stride + offset] = in[i * stride + offset];
}

}  // namespace

double strided_bytes_per_s(const Device& device, int stride, int offset) {
    if (device.gpu == nullptr) return cpu::strided_bytes_per_s(device.threads, stride, offset);
    Gpu& gpu = *device.gpu;
    const DeviceMemory in = gpu.allocate(kWords * sizeof(float));
    const DeviceMemory out = gpu.allocate(kWords * sizeof(float));
    gpu.fill(in.data(), 0, in.bytes());
    const std::int64_t count = (kWords - offset) / stride;
    const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    const double ms = best_ms(gpu, [&](cudaStream_t stream) {
        strided_copy_kernel<<<blocks, kThreads, 0, stream>>>(
            static_cast<const float*>(in.data()), static_cast<float*>(out.data()), count, stride, offset);
    });
    return 2.0 * sizeof(float) * static_cast<double>(count) / ms * 1e3;
}

}  // namespace gpumat::probe
