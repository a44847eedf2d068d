#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/vector_width.hpp"

namespace gpumat::transpose::cpu {

inline constexpr std::int64_t kLineBytes = 64;  ///< of the caches and of what memory moves

/// Rows of a matrix that are soon to be read: `count` of `bytes` bytes, `stride` bytes apart.
struct Rows {
    const std::byte* first = nullptr;
    std::int64_t stride = 0;
    std::int64_t bytes = 0;
    std::int64_t count = 0;
    bool heads = true;  ///< also the lines in which rows begin, where they begin before the row
};

/// Staged runs of bytes and where they are to be written: `count` of `bytes` bytes, strides in bytes. From a
/// line before a run to a line after it everything may be read.
struct Runs {
    const std::byte* from = nullptr;
    std::int64_t from_stride = 0;
    std::byte* to = nullptr;
    std::int64_t to_stride = 0;
    std::int64_t bytes = 0;  ///< whole lines, unless `last`
    std::int64_t count = 0;
    /// A cache-line aligned line for each run: what begins a line that the next run in the same row
    /// completes. May be null where the runs are the first and the last.
    std::byte* kept = nullptr;
    bool first = true;  ///< the runs begin what one thread writes of their rows
    bool last = true;   ///< they end it
};

/// Prefetches rows in pieces of kPieceBytes into the second-level cache: rows a power of two apart would not
/// fit the first. A row's last piece ends with the row, so that it may begin within the one before.
class Requests {
  public:
    static constexpr std::int64_t kPieceBytes = 2 * kLineBytes;

    Requests() = default;

    /// So many runs prefetch equal parts of the rows.
    Requests(const Rows& rows, std::int64_t runs);

    /// Prefetches what belongs to the runs from one on, a run at a time.
    class Cursor;

    /// The same where whole_pieces().
    class WholePieces;

    /// Whether rows are whole pieces, and just one belongs to each run.
    [[nodiscard]] bool whole_pieces() const { return whole_pieces_; }

    /// Prefetches all, where nothing belongs to runs: there are none, or rows are shorter than a piece.
    void finish() const;

  private:
    Rows rows_;
    std::int64_t across_ = 1;  ///< pieces of a row
    std::int64_t count_ = 0;   ///< pieces
    std::int64_t a_run_ = 0;   ///< pieces that belong to a run
    bool whole_pieces_ = false;
};

/// Writes the runs from `begin` to before `end` to memory that nobody reads soon, in whole lines, and
/// prefetches what belongs to them.
using Write = void (*)(const Runs& runs, const Requests& requests, std::int64_t begin, std::int64_t end);

/// The function for these vectors, runs and requests. Plain code writes through the cache and keeps nothing.
Write write_for(VectorWidth width, const Runs& runs, const Requests& requests);

/// Streaming stores are not ordered with what other threads do next; this orders those of this thread.
void finish_streaming();

}  // namespace gpumat::transpose::cpu
