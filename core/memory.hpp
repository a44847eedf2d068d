#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace gpumat {

/// Bytes of host memory that can still be taken: what the kernel calls available, or what is left of the
/// control group's limit or of this process's share where that is less.
std::uint64_t available_memory_bytes();

/// What this process may count on at most from now on, because others share the machine with it; nothing:
/// all there is. It is no limit that a user gave: no work is cut into parts for it that would else be
/// refused.
void set_memory_share(std::optional<std::uint64_t> bytes);

/// The largest resident set of this process so far, in bytes.
std::uint64_t peak_memory_bytes();

/// Throws Error{memory} where `bytes` is more than `limit`, or than what is available if there is no
/// limit. `what` says what the memory is for.
void require_memory(std::uint64_t bytes, std::optional<std::uint64_t> limit, const std::string& what);

/// "1.50 GiB", "312 bytes".
std::string format_bytes(std::uint64_t bytes);

/// The same, rounded up: who gives what it says as a limit gives enough.
std::string format_need(std::uint64_t bytes);

/// The same of a computed amount, which may be beyond 64 bits: "1.2e+38 bytes".
std::string format_traffic(double bytes);

/// Uninitialised host memory, aligned to 64 bytes. Large buffers ask for huge pages, and no forked child has
/// them. Movable, not copyable. Throws Error{memory} where the system refuses.
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::size_t bytes);
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();

    [[nodiscard]] std::byte* data() { return data_; }
    [[nodiscard]] const std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace gpumat
