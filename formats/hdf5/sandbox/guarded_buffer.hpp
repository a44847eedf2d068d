#pragma once

#include <cstddef>
#include <span>

namespace gpumat::formats::hdf5 {

/// Memory before a page that nothing may touch: a system call that would write beyond it fails instead.
class GuardedBuffer {
  public:
    GuardedBuffer() = default;
    GuardedBuffer(const GuardedBuffer&) = delete;
    GuardedBuffer& operator=(const GuardedBuffer&) = delete;
    ~GuardedBuffer();

    /// `bytes` bytes straight before the page, what they held before or zeros. Throws Error{memory} where the
    /// system refuses.
    std::span<std::byte> take(std::size_t bytes);

  private:
    void release();

    std::byte* place_ = nullptr;
    std::size_t size_ = 0;  ///< without the page
};

}  // namespace gpumat::formats::hdf5
