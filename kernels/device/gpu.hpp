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

/// Whether a driver is there, without a call into it: CUDA does not work in children of a process that uses
/// it.
bool may_have_gpu();

/// How what the runtime gave is given back to it.
struct GpuRelease {
    static void device_memory(void* data) noexcept;
    static void pinned_memory(void* data) noexcept;
    static void stream(void* handle) noexcept;
    static void event(void* handle) noexcept;
};

/// Calls kRelease on a pointer that is not null.
template <void (*kRelease)(void*) noexcept>
struct Releases {
    void operator()(void* pointer) const noexcept { kRelease(pointer); }
};

/// Memory that is freed with the object. Movable, not copyable.
template <void (*kRelease)(void*) noexcept>
class OwnedMemory {
  public:
    OwnedMemory() = default;
    OwnedMemory(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

    [[nodiscard]] void* data() const { return data_.get(); }
    [[nodiscard]] std::size_t bytes() const { return data_ == nullptr ? 0 : bytes_; }

  private:
    std::unique_ptr<void, Releases<kRelease>> data_;
    std::size_t bytes_ = 0;
};

/// Memory of the device.
using DeviceMemory = OwnedMemory<GpuRelease::device_memory>;
/// Memory of the host that the device copies from and to without the processor. To get it takes longer than
/// to copy as much, so it is worth it for buffers that are used again.
using PinnedMemory = OwnedMemory<GpuRelease::pinned_memory>;

/// A queue of work for a device: what is on one stream runs in order, what is on different streams need not.
/// `handle` is a cudaStream_t. CPU levels, which compute to the end in the call, ignore it.
struct Stream {
    void* handle = nullptr;
};

/// A stream that is ended with the object, after the work on it.
class OwnedStream {
  public:
    explicit OwnedStream(void* handle) : handle_(handle) {}
    operator Stream() const { return {handle_.get()}; }  // NOLINT: it is one

  private:
    std::unique_ptr<void, Releases<GpuRelease::stream>> handle_;
};

/// A point in the work of a stream, for others to wait for and to take times from.
class Event {
  public:
    explicit Event(void* handle) : handle_(handle) {}
    [[nodiscard]] void* handle() const { return handle_.get(); }

  private:
    std::unique_ptr<void, Releases<GpuRelease::event>> handle_;
};

/// One CUDA device. The first call that needs it, all but `info`, starts it and waits for that. Calls that
/// name no stream use the device's own, `stream()`. All functions throw Error{device} naming the failed call;
/// `allocate` and `allocate_pinned` throw Error{memory} where there is no room.
class Gpu {
  public:
    /// Throws Error{unsupported} with the reason where there is no such device.
    static std::unique_ptr<Gpu> open(int index);

    virtual ~Gpu() = default;
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    [[nodiscard]] virtual const GpuInfo& info() const = 0;

    /// Starts the device beside the caller.
    virtual void start() const = 0;

    /// Waits until the device has started, and makes it the one that the calling thread's levels run on. The
    /// other functions do so themselves.
    virtual void make_current() const = 0;

    [[nodiscard]] virtual std::size_t free_memory() const = 0;
    [[nodiscard]] virtual DeviceMemory allocate(std::size_t bytes) const = 0;

    [[nodiscard]] virtual PinnedMemory allocate_pinned(std::size_t bytes) const = 0;

    /// The device's own stream, and others that run beside it.
    [[nodiscard]] virtual Stream stream() const = 0;
    [[nodiscard]] virtual OwnedStream new_stream() const = 0;

    /// Copies between host and device; done when the call returns.
    virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
    virtual void download(void* host, const void* device, std::size_t bytes) = 0;
    /// Enqueues a device-to-device copy, or fills memory with a byte.
    virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
    virtual void fill(void* device, int byte, std::size_t bytes) = 0;

    /// Enqueues a copy between device and host. It runs beside the processor where the host's memory is
    /// pinned, which must stay until the copy has been waited for.
    virtual void upload_async(void* device, const void* host, std::size_t bytes, Stream stream) = 0;
    virtual void download_async(void* host, const void* device, std::size_t bytes, Stream stream) = 0;

    /// Waits for the work enqueued on the device's own stream, or on another, and throws what it failed with.
    virtual void synchronize() = 0;
    virtual void synchronize(Stream stream) = 0;

    [[nodiscard]] virtual Event new_event() const = 0;
    /// The event happens when the work now on the stream is done.
    virtual void record(const Event& event, Stream stream) = 0;
    /// What comes next on the stream waits for the event as it was recorded last.
    virtual void wait(Stream stream, const Event& event) = 0;
    /// The caller waits for the event.
    virtual void synchronize(const Event& event) = 0;
    /// Milliseconds between two events that were recorded; waits for the later one.
    virtual double elapsed_ms(const Event& from, const Event& to) = 0;

    /// Milliseconds between events recorded on the device's own stream before and after `enqueue`, which is
    /// given that stream; waits for the work. What the host needs to enqueue the first launches is not in
    /// them.
    virtual double time_ms(const std::function<void(Stream)>& enqueue) = 0;

  protected:
    Gpu() = default;
};

}  // namespace gpumat
