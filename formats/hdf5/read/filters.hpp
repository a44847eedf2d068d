#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/deflate.hpp"
#include "formats/hdf5/read/source.hpp"

namespace gpumat::formats::hdf5 {

/// Groups the first bytes of all elements, then the second ones …, as HDF5's shuffle filter does. Bytes
/// beyond the last whole element are copied as they are.
void shuffle(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t element_bytes);

/// Undoes `shuffle` for elements [first, first + count) of the `planes` of `total` elements.
void unshuffle(const std::byte* planes, std::size_t total, std::size_t first, std::size_t count,
               std::size_t element_bytes, std::byte* to);

/// Adds HDF5's checksum (fletcher32) to a chunk.
void append_checksum(std::vector<std::byte>& chunk);

/// Undoes the filters of a dataset, chunk after chunk, in one thread: those that the project has itself.
/// Never writes more than a chunk.
class Unfilter {
  public:
    /// `chunk_bytes`: what every chunk holds without filters. All filters have to be `known`.
    Unfilter(const std::vector<Filter>& filters, std::size_t chunk_bytes, std::size_t element_bytes)
        : filters_(filters), chunk_bytes_(chunk_bytes), element_bytes_(element_bytes) {}

    static bool known(const Filter& filter);

    /// The most bytes that a chunk can take in the file.
    [[nodiscard]] std::size_t most_stored_bytes() const { return most_bytes_after(filters_.size()); }

    /// What decoding one takes, with the chunk as stored.
    [[nodiscard]] std::size_t working_bytes() const;

    /// The chunk as it was before the filters that `mask` (bit i: filter i) does not skip; `shuffled` then
    /// says that the shuffle of whole elements, the first filter, is left to the caller. `data` and the
    /// result live until the next call. Throws Error{input} with `what` where the chunk is damaged.
    std::span<const std::byte> apply(std::span<const std::byte> data, std::uint32_t mask, bool& shuffled,
                                     const std::string& what);

  private:
    /// Whether filter `i` is the shuffle that is left to the caller.
    [[nodiscard]] bool left_to_caller(std::size_t i) const;

    /// What the first `count` filters can have made of a chunk.
    [[nodiscard]] std::size_t most_bytes_after(std::size_t count) const;

    const std::vector<Filter>& filters_;
    std::size_t chunk_bytes_;
    std::size_t element_bytes_;
    Inflater inflater_;
    std::vector<std::byte> buffers_[2];  ///< filters read one and write the other
};

}  // namespace gpumat::formats::hdf5
