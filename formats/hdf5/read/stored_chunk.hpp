#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "formats/hdf5/file/library.hpp"
#include "formats/hdf5/sandbox/guarded_buffer.hpp"

namespace gpumat::formats::hdf5 {

/// A chunk as it lies in the file. Its memory is used again for the next one.
class StoredChunk {
  public:
    using Name = std::function<std::string()>;  ///< of the chunk, for messages

    /// Reads the chunk of `dataset` whose first element is at `place`. False where it was never written.
    /// Throws Error{input} where it takes more than `most_bytes`, or another number of bytes than HDF5 says
    /// that it takes. To be called under a Session.
    bool read(hid_t dataset, const hsize_t* place, std::size_t most_bytes, const Name& name);

    /// What the last call has read; nothing where it was never written.
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
    /// Bit i: filter i was skipped.
    [[nodiscard]] std::uint32_t mask() const { return mask_; }

  private:
    GuardedBuffer memory_;
    std::span<std::byte> bytes_;  ///< in `memory_`
    std::uint32_t mask_ = 0;
};

}  // namespace gpumat::formats::hdf5
