#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "formats/hdf5/library.hpp"

namespace gpumat::formats::hdf5 {

/// Finds what H5Dread does not see in the chunks of a dataset of any number of dimensions, by reading and
/// decoding them once for nothing else. A dataset without chunks passes.
class ChunkCheck {
  public:
    /// `dataset` has to stay open. `what` is its name for messages.
    ChunkCheck(hid_t dataset, const std::string& what);
    ~ChunkCheck();
    ChunkCheck(const ChunkCheck&) = delete;
    ChunkCheck& operator=(const ChunkCheck&) = delete;

    /// Whether filters have to be undone that the project does not undo itself: those run in a child only.
    [[nodiscard]] bool needs_library() const;

    /// The memory that the check of one chunk takes, and what H5Dread takes of it after that.
    [[nodiscard]] std::uint64_t memory_bytes() const;

    /// The chunks that hold elements of `selection`, a dataspace of the dataset, and were not checked before.
    /// Throws Error{input} with `what` where one is damaged, or was never written and no fill value stands
    /// for its elements. To be called in a child (`try_in_child`) where `needs_library`.
    void check(hid_t selection);

    /// Gives the memory back that the checks took. What was checked stays known.
    void release();

    /// How many chunks were checked, and the bytes of each without filters.
    [[nodiscard]] std::uint64_t checked_chunks() const { return checked_.size(); }
    [[nodiscard]] std::uint64_t chunk_bytes() const;

  private:
    struct Chunked;

    std::unique_ptr<Chunked> chunked_;  ///< null where there are no chunks
    std::set<std::uint64_t> checked_;   ///< the numbers of the chunks, in the order of the file's dimensions
};

}  // namespace gpumat::formats::hdf5
