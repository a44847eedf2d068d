// The GPU interface on the CUDA runtime.
#include <array>
#include <cstdio>
#include <utility>

#include "kernels/common/cuda_check.cuh"
#include "kernels/gpu.hpp"

namespace gpumat {
namespace {

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string uuid_text(const cudaUUID_t& uuid) {
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        std::array<char, 4> hex{};
        std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
        text += hex.data();
        if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
    }
    return text;
}

int attribute(cudaDeviceAttr which, int index) {
    int value = 0;
    GPUMAT_CUDA(cudaDeviceGetAttribute(&value, which, index));
    return value;
}

GpuInfo describe(int index) {
    cudaDeviceProp properties{};
    GPUMAT_CUDA(cudaGetDeviceProperties(&properties, index));
    int driver = 0;
    int runtime = 0;
    GPUMAT_CUDA(cudaDriverGetVersion(&driver));
    GPUMAT_CUDA(cudaRuntimeGetVersion(&runtime));
    return {
        .index = index,
        .name = properties.name,
        .uuid = uuid_text(properties.uuid),
        .compute_capability = properties.major * 10 + properties.minor,
        .multiprocessors = properties.multiProcessorCount,
        .memory_bytes = properties.totalGlobalMem,
        .l2_bytes = static_cast<std::uint64_t>(properties.l2CacheSize),
        .shared_bytes_per_block = properties.sharedMemPerBlockOptin,
        .threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor,
        .clock_mhz = attribute(cudaDevAttrClockRate, index) / 1000,
        .memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, index) / 1000,
        .memory_bus_bits = properties.memoryBusWidth,
        .driver_version = version_text(driver),
        .runtime_version = version_text(runtime),
    };
}

/// Time that the host gets to enqueue what is timed: a launch takes it a few microseconds.
constexpr unsigned long long kHeadStartNs = 30'000;

/// One thread that does nothing for that long by the device's clock.
__global__ void wait_kernel(unsigned long long duration_ns) {
    const auto now_ns = [] {
        unsigned long long now = 0;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        return now;
    };
    const unsigned long long start_ns = now_ns();
    while (now_ns() - start_ns < duration_ns) {
    }
}

class CudaGpu final : public Gpu {
  public:
    explicit CudaGpu(int index) {
        GPUMAT_CUDA(cudaSetDevice(index));
        info_ = describe(index);
        GPUMAT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        GPUMAT_CUDA(cudaEventCreate(&start_));
        GPUMAT_CUDA(cudaEventCreate(&stop_));
    }

    ~CudaGpu() override {
        // Nothing can be reported from here; a failed device has been reported by the call that saw it.
        cudaEventDestroy(start_);
        cudaEventDestroy(stop_);
        cudaStreamDestroy(stream_);
    }

    const GpuInfo& info() const override { return info_; }

    std::size_t free_memory() const override {
        std::size_t free_bytes = 0;
        std::size_t total = 0;
        GPUMAT_CUDA(cudaMemGetInfo(&free_bytes, &total));
        return free_bytes;
    }

    DeviceMemory allocate(std::size_t bytes) const override {
        if (bytes == 0) return {};
        void* data = nullptr;
        const cudaError_t status = cudaMalloc(&data, bytes);
        if (status == cudaErrorMemoryAllocation) {
            cudaGetLastError();  // the refusal is not sticky; clear it so that later calls are judged alone
            throw Error(ErrorCode::memory, info_.name + " has no room for " + std::to_string(bytes) +
                                               " bytes (" + std::to_string(free_memory()) + " are free)");
        }
        GPUMAT_CUDA(status);
        return {data, bytes};
    }

    void upload(void* device, const void* host, std::size_t bytes) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_));
        GPUMAT_CUDA(cudaStreamSynchronize(stream_));
    }

    void download(void* host, const void* device, std::size_t bytes) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_));
        GPUMAT_CUDA(cudaStreamSynchronize(stream_));
    }

    void copy(void* to, const void* from, std::size_t bytes) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
    }

    void fill(void* device, int byte, std::size_t bytes) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemsetAsync(device, byte, bytes, stream_));
    }

    void synchronize() override { GPUMAT_CUDA(cudaStreamSynchronize(stream_)); }

    double time_ms(const std::function<void()>& enqueue) override {
        // While the device waits, the host enqueues events and work behind it, so that the time between the
        // events holds no gap in which the device was idle because the host was slow.
        wait_kernel<<<1, 1, 0, stream_>>>(kHeadStartNs);
        GPUMAT_CUDA(cudaGetLastError());
        GPUMAT_CUDA(cudaEventRecord(start_, stream_));
        enqueue();
        GPUMAT_CUDA(cudaEventRecord(stop_, stream_));
        GPUMAT_CUDA(cudaEventSynchronize(stop_));
        float milliseconds = 0;
        GPUMAT_CUDA(cudaEventElapsedTime(&milliseconds, start_, stop_));
        return milliseconds;
    }

    void* stream() const override { return stream_; }

  private:
    GpuInfo info_;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t start_ = nullptr;
    cudaEvent_t stop_ = nullptr;
};

}  // namespace

GpuList list_gpus() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return {{}, std::string("the CUDA driver reports: ") + cudaGetErrorString(status)};
    }
    GpuList list;
    for (int index = 0; index < count; ++index) list.gpus.push_back(describe(index));
    if (count == 0) list.why_none = "the CUDA driver reports no device";
    return list;
}

std::unique_ptr<Gpu> Gpu::open(int index) {
    const GpuList list = list_gpus();
    if (list.gpus.empty()) throw Error(ErrorCode::unsupported, "no GPU: " + list.why_none);
    if (index < 0 || index >= static_cast<int>(list.gpus.size())) {
        throw Error(ErrorCode::unsupported, "there is no gpu:" + std::to_string(index) +
                                                "; this machine has " + std::to_string(list.gpus.size()) +
                                                ", counted from 0");
    }
    return std::make_unique<CudaGpu>(index);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

DeviceMemory::~DeviceMemory() {
    cudaFree(data_);
}

}  // namespace gpumat
