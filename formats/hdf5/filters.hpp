#pragma once

#include <zlib.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/hdf5/source.hpp"

namespace gpumat::formats::hdf5 {

/// Groups the first bytes of all elements, then the second ones …, as HDF5's shuffle filter does. Bytes
/// beyond the last whole element are copied as they are.
void shuffle(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t element_bytes);

/// Undoes `shuffle` for elements [first, first + count) of the `planes` of `total` elements.
void unshuffle(const std::byte* planes, std::size_t total, std::size_t first, std::size_t count,
               std::size_t element_bytes, std::byte* to);

/// Compresses into `to` as HDF5's deflate filter does. False, and `to` is unspecified, where that makes
/// nothing smaller; the filter is then skipped for the chunk.
bool deflate(const std::byte* from, std::size_t bytes, int level, std::vector<std::byte>& to);

/// Undoes the filters of a dataset, chunk after chunk, in one thread.
class Unfilter {
  public:
    /// `chunk_bytes`: what every chunk holds without filters. All filters have to be `known`.
    Unfilter(const std::vector<Filter>& filters, std::size_t chunk_bytes, std::size_t element_bytes);
    ~Unfilter();
    Unfilter(const Unfilter&) = delete;
    Unfilter& operator=(const Unfilter&) = delete;

    static bool known(const Filter& filter);

    /// The chunk as it was before the filters that `mask` (bit i: filter i) does not skip; `shuffled` then
    /// says that the shuffle of whole elements, the first filter, is left to the caller. `data` and the
    /// result live until the next call. Throws Error{input} with `what`, never writes more than a chunk.
    std::span<const std::byte> apply(std::span<const std::byte> data, std::uint32_t mask, bool& shuffled,
                                     const std::string& what);

  private:
    std::span<const std::byte> inflate(std::span<const std::byte> data, std::vector<std::byte>& to,
                                       std::size_t most, const std::string& what);

    const std::vector<Filter>& filters_;
    std::size_t chunk_bytes_;
    std::size_t element_bytes_;
    z_stream stream_{};
    bool stream_is_open_ = false;
    std::vector<std::byte> buffers_[2];  ///< filters read one and write the other
};

}  // namespace gpumat::formats::hdf5
