// The GPU interface on the CUDA runtime.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <future>
#include <map>
#include <mutex>
#include <optional>

#include "kernels/device/cuda_check.cuh"
#include "kernels/device/cuda_stream.cuh"
#include "kernels/device/gpu.hpp"

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

GpuInfo ask_for_info(int index) {
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

/// Asked for once: the driver takes a millisecond.
const GpuInfo& describe(int index) {
    static std::mutex mutex;
    static std::map<int, GpuInfo> known;
    const std::lock_guard lock(mutex);
    const auto found = known.find(index);
    return found != known.end() ? found->second : known.emplace(index, ask_for_info(index)).first->second;
}

/// Pinned memory that is free for the next who wants as much. To pin a buffer takes longer than to fill it.
class PinnedCache {
  public:
    /// Null where there is none of that size.
    void* take(std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto found = free_.find(bytes);
        if (found == free_.end()) return nullptr;
        void* const data = found->second;
        free_.erase(found);
        kept_bytes_ -= bytes;
        return data;
    }

    void note_size(void* data, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        sizes_[data] = bytes;
    }

    /// Whether it is kept; else it is to be freed.
    bool keep(void* data) {
        constexpr std::size_t kMost_bytes = std::size_t{128} << 20;
        const std::lock_guard lock(mutex_);
        const std::size_t bytes = sizes_[data];
        if (kept_bytes_ + bytes > kMost_bytes) {
            sizes_.erase(data);
            return false;
        }
        free_.emplace(bytes, data);
        kept_bytes_ += bytes;
        return true;
    }

  private:
    std::mutex mutex_;
    std::map<void*, std::size_t> sizes_;
    std::multimap<std::size_t, void*> free_;
    std::size_t kept_bytes_ = 0;
};

/// One for the process: the system frees it at its end.
PinnedCache& pinned_cache() {
    static auto* const cache = new PinnedCache;
    return *cache;
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

cudaEvent_t cuda_event(const Event& event) {
    return static_cast<cudaEvent_t>(event.handle());
}

class CudaGpu final : public Gpu {
  public:
    explicit CudaGpu(int index) : info_(describe(index)) {}

    void start() const override {
        std::call_once(starting_, [this] {
            started_ = std::async(std::launch::async, [index = info_.index] { make_context(index); }).share();
        });
    }

    void make_current() const override {
        start();
        std::shared_future(started_).get();
        GPUMAT_CUDA(cudaSetDevice(info_.index));
        std::call_once(made_, [this] { own_.emplace(); });
    }

    const GpuInfo& info() const override { return info_; }

    std::size_t free_memory() const override {
        make_current();
        std::size_t free_bytes = 0;
        std::size_t total = 0;
        GPUMAT_CUDA(cudaMemGetInfo(&free_bytes, &total));
        return free_bytes;
    }

    DeviceMemory allocate(std::size_t bytes) const override {
        if (bytes == 0) return {};
        make_current();
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

    PinnedMemory allocate_pinned(std::size_t bytes) const override {
        if (bytes == 0) return {};
        make_current();
        void* data = pinned_cache().take(bytes);
        if (data != nullptr) return {data, bytes};
        const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
        if (status == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw Error(ErrorCode::memory, "the host has no room for " + std::to_string(bytes) +
                                               " bytes that " + info_.name + " can copy by itself");
        }
        GPUMAT_CUDA(status);
        pinned_cache().note_size(data, bytes);
        return {data, bytes};
    }

    Stream stream() const override {
        make_current();
        return own_->stream;
    }

    OwnedStream new_stream() const override {
        make_current();
        return make_stream();
    }

    void upload(void* device, const void* host, std::size_t bytes) override {
        upload_async(device, host, bytes, stream());
        synchronize();
    }

    void download(void* host, const void* device, std::size_t bytes) override {
        download_async(host, device, bytes, stream());
        synchronize();
    }

    void copy(void* to, const void* from, std::size_t bytes) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda_stream(stream())));
    }

    void fill(void* device, int byte, std::size_t bytes) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemsetAsync(device, byte, bytes, cuda_stream(stream())));
    }

    void upload_async(void* device, const void* host, std::size_t bytes, Stream stream) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, cuda_stream(stream)));
    }

    void download_async(void* host, const void* device, std::size_t bytes, Stream stream) override {
        if (bytes == 0) return;
        GPUMAT_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, cuda_stream(stream)));
    }

    void synchronize() override { synchronize(stream()); }
    void synchronize(Stream stream) override { GPUMAT_CUDA(cudaStreamSynchronize(cuda_stream(stream))); }

    Event new_event() const override {
        make_current();
        return make_event();
    }

    void record(const Event& event, Stream stream) override {
        GPUMAT_CUDA(cudaEventRecord(cuda_event(event), cuda_stream(stream)));
    }

    void wait(Stream stream, const Event& event) override {
        GPUMAT_CUDA(cudaStreamWaitEvent(cuda_stream(stream), cuda_event(event), cudaEventWaitDefault));
    }

    void synchronize(const Event& event) override { GPUMAT_CUDA(cudaEventSynchronize(cuda_event(event))); }

    double elapsed_ms(const Event& from, const Event& to) override {
        synchronize(to);
        float milliseconds = 0;
        GPUMAT_CUDA(cudaEventElapsedTime(&milliseconds, cuda_event(from), cuda_event(to)));
        return milliseconds;
    }

    double time_ms(const std::function<void(Stream)>& enqueue) override {
        // While the device waits, the host enqueues events and work behind it, so that the time between the
        // events holds no gap in which the device was idle because the host was slow.
        wait_kernel<<<1, 1, 0, cuda_stream(stream())>>>(kHeadStartNs);
        GPUMAT_CUDA(cudaGetLastError());
        record(own_->start, own_->stream);
        enqueue(own_->stream);
        record(own_->stop, own_->stream);
        return elapsed_ms(own_->start, own_->stop);
    }

  private:
    static OwnedStream make_stream() {
        cudaStream_t stream = nullptr;
        GPUMAT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        return OwnedStream(stream);
    }

    static Event make_event() {
        cudaEvent_t event = nullptr;
        GPUMAT_CUDA(cudaEventCreate(&event));
        return Event(event);
    }

    /// The runtime's context takes 0.2 s and more.
    static void make_context(int index) {
        GPUMAT_CUDA(cudaSetDevice(index));
        GPUMAT_CUDA(cudaFree(nullptr));
    }

    /// What is made on the device once it has started.
    struct Own {
        OwnedStream stream = make_stream();
        Event start = make_event();
        Event stop = make_event();
    };

    GpuInfo info_;
    mutable std::once_flag starting_;
    mutable std::shared_future<void> started_;
    mutable std::once_flag made_;
    mutable std::optional<Own> own_;
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

bool may_have_gpu() {
    constexpr std::array kDevices = {"/dev/nvidiactl", "/dev/dxg"};  // dxg: of Linux within Windows
    return std::any_of(kDevices.begin(), kDevices.end(),
                       [](const char* device) { return access(device, F_OK) == 0; });
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

// Nothing can be reported from these; a failed device has been reported by the call that saw it.
void GpuRelease::device_memory(void* data) noexcept {
    cudaFree(data);
}
void GpuRelease::pinned_memory(void* data) noexcept {
    if (!pinned_cache().keep(data)) cudaFreeHost(data);
}
void GpuRelease::stream(void* handle) noexcept {
    cudaStreamDestroy(static_cast<cudaStream_t>(handle));
}
void GpuRelease::event(void* handle) noexcept {
    cudaEventDestroy(static_cast<cudaEvent_t>(handle));
}

}  // namespace gpumat
