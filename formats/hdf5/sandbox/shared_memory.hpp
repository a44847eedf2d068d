#pragma once

#include <cstddef>

namespace gpumat::formats::hdf5 {

/// Zeroed memory that children share. Throws Error{memory} where the system refuses.
class SharedMemory {
  public:
    SharedMemory() = default;
    explicit SharedMemory(std::size_t bytes);
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory();

    [[nodiscard]] std::byte* data() { return data_; }
    [[nodiscard]] const std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace gpumat::formats::hdf5
