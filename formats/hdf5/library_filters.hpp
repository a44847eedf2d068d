#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "formats/hdf5/filters.hpp"

namespace gpumat::formats::hdf5 {

/// Undoes any filters that HDF5 has, built in or as plugins, and converts the elements to
/// `Element::memory`. HDF5 1.10 does not look at what filters make of a damaged chunk: fewer bytes than the
/// chunk has, or bytes that were beyond the end of what they were given. Here each chunk is decoded twice in
/// a file in memory, whose pipeline has filters of our own between those of the dataset. They put other
/// bytes behind the input of each filter the second time, and check how much comes out. Newly allocated
/// memory is filled with other bytes too. A chunk of the wrong size, or of which two results differ, is
/// damaged.
///
/// To be used in a child (`try_in_child`) under a Session: filters crash, loop and inflate without end.
class LibraryUnfilter : public ChunkDecoder {
  public:
    LibraryUnfilter(const Source& source, const Dense& dense);

    /// The most bytes that a chunk of `chunk_bytes` may take in the file: some filters write headers, none
    /// doubles what it cannot compress.
    static std::size_t most_stored_bytes(std::size_t chunk_bytes) { return 2 * chunk_bytes + (1U << 16); }

    /// How many blocks of so many bytes are filled, to be handed out again: of small ones as many as glibc
    /// keeps as they are for the next requests, and one more.
    static std::uint64_t poisoned_blocks(std::uint64_t bytes) {
        constexpr std::uint64_t kMostSmall = std::uint64_t{1} << 16;
        return bytes <= kMostSmall ? 8 : 1;
    }

    /// The memory that decoding such a chunk takes, where it is not longer in the file than it is decoded:
    /// six copies of it, in HDF5's and in ours, or two beside the blocks that are filled; and two results.
    static std::uint64_t memory_bytes(std::uint64_t chunk_bytes, std::uint64_t result_bytes) {
        const std::uint64_t copies = std::max<std::uint64_t>(6, 2 + poisoned_blocks(chunk_bytes));
        return copies * chunk_bytes + 2 * result_bytes;
    }

    /// Throws too where HDF5 gives the filters other parameters than the dataset has.
    std::span<const std::byte> apply(std::span<const std::byte> data, std::uint32_t mask, bool& shuffled,
                                     const std::string& what) override;

  private:
    void prepare(std::uint32_t mask);
    void require_same_parameters(const std::vector<Filter>& filters) const;
    void decode(std::size_t turn, const std::string& what);

    const Dense& dense_;
    std::string name_;  ///< of the dataset
    hid_t memory_type_;
    std::size_t elements_;  ///< of a chunk
    Handle type_;           ///< as stored
    Handle file_;           ///< in memory
    Handle dataset_;        ///< in it, of one chunk
    std::uint32_t mask_ = 0;
    std::array<std::vector<std::byte>, 2> results_;  ///< as converted
};

}  // namespace gpumat::formats::hdf5
