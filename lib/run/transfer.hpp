#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "kernels/device/gpu.hpp"
#include "lib/record/timeline.hpp"
#include "lib/run/stage.hpp"

namespace gpumat {

/// Pinned buffers: some are filled, one is on its way, some are verified and written.
inline constexpr std::size_t kPinnedBuffers = 6;
inline constexpr std::size_t kPinnedBytes = std::size_t{16} << 20;

/// Copies between pageable host memory and a device through a few pinned buffers: all threads copy into or
/// out of one while the device copies another. One thread at a time; beside it the device may compute.
class Transfer {
  public:
    /// Through buffers of `piece_bytes` of this pool. The clock is that of the stage that copies: it pauses
    /// while no buffer is free.
    Transfer(Gpu& gpu, Pool<PinnedMemory>& buffers, std::size_t piece_bytes, int threads, StageClock& clock);
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    /// Waits for copies that a failure left on their way: the buffers serve others.
    ~Transfer();

    /// Takes up to so many bytes; `host` is free when it returns, the device has them after
    /// `wait_for_uploads`.
    void upload(void* device, const std::byte* host, std::size_t bytes);
    void wait_for_uploads();
    void download(std::byte* host, const void* device, std::size_t bytes);

    /// Gives what is on the device to `take`, so many bytes at a time (no more than a buffer has), each in a
    /// buffer that is free for the next once nobody holds it. The next piece is on its way while one is
    /// taken.
    using Take =
        std::function<void(std::size_t first, std::size_t bytes, std::shared_ptr<PinnedMemory> piece)>;
    void download_pieces(const void* device, std::size_t bytes, std::size_t piece_bytes, const Take& take);

  private:
    struct Upload {
        std::shared_ptr<PinnedMemory> memory;
        Event sent;
    };

    [[nodiscard]] std::shared_ptr<PinnedMemory> free_buffer() const;
    void copy(std::byte* to, const std::byte* from, std::size_t bytes) const;

    Gpu& gpu_;
    Pool<PinnedMemory>& buffers_;
    std::size_t piece_bytes_;
    int threads_;
    StageClock& clock_;
    OwnedStream stream_;
    std::deque<Upload> uploads_;  ///< on their way
};

}  // namespace gpumat
