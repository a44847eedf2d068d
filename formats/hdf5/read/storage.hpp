#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "formats/hdf5/read/source.hpp"

namespace gpumat::formats::hdf5 {

/// Reads rectangles of a dense dataset as they are stored: dimensions not reversed, numbers in the host's
/// byte order (`wide` elements as in the file), `Element::memory_bytes` each.
class Storage {
  public:
    virtual ~Storage() = default;
    Storage() = default;
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    /// Fills rows of `rect.cols` elements, `row_bytes` apart. Throws Error{input}.
    virtual void read(const Block& rect, std::byte* to, std::int64_t row_bytes) = 0;

    /// The memory that it keeps beside the elements that it reads, what it is for, and what it takes at least
    /// while it reads: a small file can have chunks of 4 GiB. Who reads requires them.
    [[nodiscard]] virtual std::uint64_t open_bytes() const { return 0; }
    [[nodiscard]] virtual std::string open_words() const { return {}; }
    [[nodiscard]] virtual std::uint64_t working_bytes() const { return 0; }

    /// Where the elements lie in the file; its path is left out. Nothing where they are not row after row.
    [[nodiscard]] virtual std::optional<StoredPlace> place() const { return {}; }

    /// It may take so much more than `working_bytes` while it reads. Before this is called: what the memory
    /// limit leaves, or the memory that is free.
    virtual void set_spare(std::uint64_t /*bytes*/) {}
};

/// The fastest storage that reads the dataset. `source` and `dense` must outlive it. Throws Error{input}
/// where the elements are not all there: pieces in other files that are refused or missing, a filter that is
/// not installed, parts never written that have no fill value, a file that is too short.
std::unique_ptr<Storage> open_storage(const Source& source, const Dense& dense, const ReadOptions& options);

/// Whether what was never written of a dataset with the properties `creation` has a value all the same.
/// Throws where the file gives a time at which it is filled that there is not.
bool is_filled(hid_t creation, const std::string& what);

/// Throws Error{input} where a dataset without chunks takes fewer bytes in its own file than its elements
/// take, or passes the end that the file says it has: HDF5 would give what is in memory behind them.
void require_whole(hid_t dataset, hid_t creation, const std::string& what);

/// How many chunks of a chunked dataset have been written. Visits its whole index.
hsize_t written_chunks(hid_t dataset, const std::string& what);

/// Whether as many chunks of a chunked dataset have been written as it has. Visits its whole index.
bool enough_chunks_are_there(hid_t dataset, hid_t creation, const std::string& what);

}  // namespace gpumat::formats::hdf5
