#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace gpumat {

/// A file descriptor that closes itself.
class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (number_ >= 0) close(number_);
    }

    [[nodiscard]] int number() const { return number_; }
    [[nodiscard]] bool valid() const { return number_ >= 0; }

  private:
    int number_ = -1;
};

/// Writes everything, in one call where the system takes it so. Returns errno, or 0.
inline int write_all(int descriptor, std::string_view data) {
    while (!data.empty()) {
        const ssize_t written = write(descriptor, data.data(), data.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        data.remove_prefix(static_cast<std::size_t>(written));
    }
    return 0;
}

/// How far reading came: not to its end where the file ends before, or where the system refuses.
struct ReadSoFar {
    std::size_t bytes = 0;
    int error = 0;  ///< errno, or 0
};

/// Reads `bytes` from `offset` of the file on, no more than `most` in a call.
inline ReadSoFar read_at(int descriptor, void* to, std::size_t bytes, std::uint64_t offset,
                         std::size_t most = std::numeric_limits<std::size_t>::max()) {
    std::size_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(descriptor, static_cast<std::byte*>(to) + done,
                                  std::min(bytes - done, most), static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return {done, got < 0 ? errno : 0};
        done += static_cast<std::size_t>(got);
    }
    return {done, 0};
}

/// Writes everything there, no more than `most` in a call. Returns errno, or 0.
inline int write_at(int descriptor, const void* from, std::size_t bytes, std::uint64_t offset,
                    std::size_t most = std::numeric_limits<std::size_t>::max()) {
    for (std::size_t done = 0; done < bytes;) {
        const ssize_t written = pwrite(descriptor, static_cast<const std::byte*>(from) + done,
                                       std::min(bytes - done, most), static_cast<off_t>(offset + done));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        done += static_cast<std::size_t>(written);
    }
    return 0;
}

}  // namespace gpumat
