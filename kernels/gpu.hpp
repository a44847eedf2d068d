#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpumat {

/// Facts about one CUDA device, as the driver reports them.
struct GpuInfo {
    int index = 0;
    std::string name;
    std::string uuid;
    int compute_capability = 0;  ///< 90 for 9.0
    int multiprocessors = 0;
    std::uint64_t memory_bytes = 0;
    std::uint64_t l2_bytes = 0;
    std::uint64_t shared_bytes_per_block = 0;  ///< the most that a block can opt in to
    int threads_per_multiprocessor = 0;        ///< the most that one holds at a time
    int clock_mhz = 0;                         ///< highest clock of the multiprocessors
    int memory_clock_mhz = 0;
    int memory_bus_bits = 0;
    std::string driver_version;   ///< CUDA version that the driver supports, "13.0"
    std::string runtime_version;  ///< CUDA runtime in this binary, "13.0"
};

/// The devices found, or why there are none.
struct GpuList {
    std::vector<GpuInfo> gpus;
    std::string why_none;  ///< set where `gpus` is empty
};

/// Asks the driver. Never throws for a machine without a GPU, a driver or CUDA support in this build.
GpuList list_gpus();

/// Device memory, freed with the object. Movable, not copyable.
class DeviceMemory {
  public:
    DeviceMemory() = default;
    DeviceMemory(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
    DeviceMemory(DeviceMemory&& other) noexcept;
    DeviceMemory& operator=(DeviceMemory&& other) noexcept;
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    ~DeviceMemory();

    [[nodiscard]] void* data() const { return data_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

  private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

/// One CUDA device with one stream, on which everything here is ordered. All functions throw
/// Error{device} naming the failed call; `allocate` throws Error{memory} where the device is full.
class Gpu {
  public:
    /// Throws Error{unsupported} with the reason where there is no such device.
    static std::unique_ptr<Gpu> open(int index);

    virtual ~Gpu() = default;
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    [[nodiscard]] virtual const GpuInfo& info() const = 0;
    [[nodiscard]] virtual std::size_t free_memory() const = 0;
    [[nodiscard]] virtual DeviceMemory allocate(std::size_t bytes) const = 0;

    /// Copies between host and device; done when the call returns.
    virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
    virtual void download(void* host, const void* device, std::size_t bytes) = 0;
    /// Enqueues a device-to-device copy, or fills memory with a byte.
    virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
    virtual void fill(void* device, int byte, std::size_t bytes) = 0;

    /// Waits for all enqueued work and throws what it failed with.
    virtual void synchronize() = 0;

    /// Milliseconds between device events recorded before and after `enqueue`; waits for the work. What the
    /// host needs to enqueue the first launches is not in them.
    virtual double time_ms(const std::function<void()>& enqueue) = 0;

    /// The cudaStream_t, for the kernels.
    [[nodiscard]] virtual void* stream() const = 0;

  protected:
    Gpu() = default;
};

}  // namespace gpumat
