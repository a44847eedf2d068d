#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumat::formats::hdf5 {

/// A part of a file in memory, for many threads to write. Only of files whose space is reserved and stays so,
/// so that no write can meet a full disk (which would be SIGBUS, not an error).
class FileMapping {
  public:
    FileMapping() = default;
    FileMapping(const FileMapping&) = delete;
    FileMapping& operator=(const FileMapping&) = delete;
    ~FileMapping();

    /// Maps bytes whose space is reserved before they are written. Leaves `data` null where the file system
    /// may still move them elsewhere when they are written (copy on write), or does not say.
    void open(int descriptor, std::uint64_t offset, std::size_t bytes);

    /// The first byte; null where nothing is mapped.
    [[nodiscard]] std::byte* data() const { return data_; }

  private:
    std::byte* pages_ = nullptr;
    std::size_t mapped_bytes_ = 0;
    std::byte* data_ = nullptr;
};

}  // namespace gpumat::formats::hdf5
