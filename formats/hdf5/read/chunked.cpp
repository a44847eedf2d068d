#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "formats/byte_order.hpp"
#include "formats/hdf5/read/filters.hpp"
#include "formats/hdf5/read/raw.hpp"
#include "formats/hdf5/read/stored_chunk.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// Bytes that a thread fetches before it lets the others fetch: waking one takes as long as some small
/// chunks.
constexpr std::size_t kFetchBytes = std::size_t{512} << 10;
constexpr std::int64_t kMostFetched = 16;

/// Chunks are fetched by one thread at a time, as stored, and their filters undone in parallel.
class ChunkedStorage final : public Storage {
  public:
    ChunkedStorage(const Source& source, const Dense& dense, const ReadOptions& options)
        : source_(source),
          dense_(dense),
          most_threads_(std::max(1, options.threads)),
          element_bytes_(static_cast<std::int64_t>(source.element.memory_bytes)),
          row_step_(step_along(dense.edges, dense.window.row)),
          col_step_(step_along(dense.edges, dense.window.col)),
          corner_(dense.window.origin),
          most_stored_bytes_(decoder().most_stored_bytes()),
          working_bytes_(decoder().working_bytes()),
          fill_(fill_value(source, dense)) {
        Extents within(corner_.size(), 0);
        for (std::size_t i = 0; i < corner_.size(); ++i) {
            const auto dimension = static_cast<int>(i);
            if (dimension != dense.window.row && dimension != dense.window.col)
                within[i] = corner_[i] % dense.edges[i];
            corner_[i] -= within[i];
        }
        first_ = place_in(dense.edges, within);
        const std::uint64_t all = options.memory_limit ? *options.memory_limit : available_memory_bytes();
        set_spare(all - std::min(all, working_bytes_));
    }

    [[nodiscard]] std::uint64_t working_bytes() const override { return working_bytes_; }

    /// Each thread takes what decoding a chunk takes, and what it fetches beside that.
    void set_spare(std::uint64_t bytes) override {
        const std::uint64_t most = working_bytes_ + bytes;
        threads_ = static_cast<int>(std::clamp<std::uint64_t>(most / (working_bytes_ + kFetchBytes), 1,
                                                              static_cast<std::uint64_t>(most_threads_)));
        fetch_bytes_ = static_cast<std::size_t>(std::min<std::uint64_t>(
            kFetchBytes, most / static_cast<std::uint64_t>(threads_) - working_bytes_));
    }

    void read(const Block& asked, std::byte* to, std::int64_t row_bytes) override {
        if (asked.rows == 0 || asked.cols == 0) return;
        const Block rect{asked.row + dense_.window.first(dense_.window.row),
                         asked.col + dense_.window.first(dense_.window.col), asked.rows, asked.cols};
        const std::int64_t first_row = rect.row / dense_.chunk.rows;
        const std::int64_t first_col = rect.col / dense_.chunk.cols;
        const std::int64_t rows = (rect.row + rect.rows - 1) / dense_.chunk.rows - first_row + 1;
        const std::int64_t cols = (rect.col + rect.cols - 1) / dense_.chunk.cols - first_col + 1;
        const std::int64_t chunks = rows * cols;
        const auto workers = static_cast<int>(std::min<std::int64_t>(threads_, chunks));
        const std::int64_t grain = std::clamp<std::int64_t>(chunks / (4 * workers), 1, kMostFetched);
        const auto chunk_at = [&](std::int64_t i) {
            return Block{(first_row + i / cols) * dense_.chunk.rows,
                         (first_col + i % cols) * dense_.chunk.cols, dense_.chunk.rows, dense_.chunk.cols};
        };
        std::atomic<std::int64_t> next{0};
        parallel_for(workers, 1, workers, [&](std::int64_t, std::int64_t) {
            Unfilter undo = decoder();
            std::vector<Placed> fetched(static_cast<std::size_t>(grain));
            try {
                for (std::int64_t i = next.fetch_add(grain); i < chunks; i = next.fetch_add(grain)) {
                    const std::int64_t end = std::min(i + grain, chunks);
                    for (std::int64_t first = i; first < end;) {
                        const std::size_t count = fetch_some(first, end, chunk_at, fetched);
                        for (std::size_t k = 0; k < count; ++k)
                            deliver(fetched[k], rect, to, row_bytes, undo);
                        first += static_cast<std::int64_t>(count);
                    }
                }
            } catch (...) {
                next = chunks;
                throw;
            }
        });
    }

  private:
    [[nodiscard]] Unfilter decoder() const {
        const auto element = static_cast<std::size_t>(element_bytes_);
        return {dense_.filters, static_cast<std::size_t>(elements_in_chunk(dense_)) * element, element};
    }

    /// A chunk as it is in the file, and where it belongs: its rows and columns count from those of the
    /// dataset.
    struct Placed {
        Block chunk;
        StoredChunk stored;
    };

    /// The first element of a chunk in the dataset.
    [[nodiscard]] std::array<hsize_t, H5S_MAX_RANK> corner_of(const Block& chunk) const {
        std::array<hsize_t, H5S_MAX_RANK> corner{};
        std::ranges::copy(corner_, corner.begin());
        const Window& window = dense_.window;
        if (window.row >= 0) corner[static_cast<std::size_t>(window.row)] = static_cast<hsize_t>(chunk.row);
        if (window.col >= 0) corner[static_cast<std::size_t>(window.col)] = static_cast<hsize_t>(chunk.col);
        return corner;
    }

    [[nodiscard]] std::string name_of_chunk(const Block& chunk) const {
        if (corner_.size() > 2) {
            const auto corner = corner_of(chunk);
            std::string text;
            for (std::size_t i = 0; i < corner_.size(); ++i)
                text += (i == 0 ? "" : ",") + std::to_string(corner[i]);
            return source_.name + ": the chunk at [" + text + "]";
        }
        return source_.name + ": the chunk at row " + std::to_string(chunk.row + 1) + ", column " +
               std::to_string(chunk.col + 1);
    }

    /// Fetches chunks from `first` on, up to `end`, until they fill one round of work. Returns how many.
    template <class ChunkAt>
    std::size_t fetch_some(std::int64_t first, std::int64_t end, const ChunkAt& chunk_at,
                           std::vector<Placed>& fetched) const {
        const Session session;
        std::size_t count = 0;
        std::size_t bytes = 0;
        for (std::int64_t i = first; i < end && (count == 0 || bytes < fetch_bytes_); ++i, ++count) {
            fetched[count].chunk = chunk_at(i);
            fetch(fetched[count]);
            bytes += fetched[count].stored.bytes().size();
        }
        return count;
    }

    void fetch(Placed& placed) const {
        const auto place = corner_of(placed.chunk);
        placed.stored.read(dense_.dataset.id(), place.data(), most_stored_bytes_,
                           [&] { return name_of_chunk(placed.chunk); });
    }

    /// Undoes the filters of a chunk and puts what of it lies in `rect` where it belongs.
    void deliver(const Placed& placed, const Block& rect, std::byte* to, std::int64_t row_bytes,
                 Unfilter& undo) const {
        const Block& chunk = placed.chunk;
        const std::int64_t top = std::max(chunk.row, rect.row);
        const std::int64_t left = std::max(chunk.col, rect.col);
        std::int64_t rows = std::min(chunk.row + chunk.rows, rect.row + rect.rows) - top;
        std::int64_t count = std::min(chunk.col + chunk.cols, rect.col + rect.cols) - left;
        std::byte* place = to + (top - rect.row) * row_bytes + (left - rect.col) * element_bytes_;
        std::int64_t run = col_step_ == 1 ? count : 1;  // elements that lie side by side
        if (run == count && count == row_step_ && count * element_bytes_ == row_bytes) {
            run = count *= rows;  // rows without gaps
            rows = 1;
        }
        if (placed.stored.bytes().empty()) {
            if (fill_.empty())
                throw Error(
                    ErrorCode::input,
                    name_of_chunk(chunk) + " was never written, and the dataset defines no fill value");
            for (; rows > 0; --rows, place += row_bytes) fill_run(place, count);
            return;
        }
        bool shuffled = false;
        const auto plain =
            undo.apply(placed.stored.bytes(), skipped_filters(placed), shuffled, name_of_chunk(chunk));
        const auto element = static_cast<std::size_t>(element_bytes_);
        const auto elements = static_cast<std::size_t>(elements_in_chunk(dense_));
        const auto copy = [&](std::int64_t first, std::byte* into) {
            if (shuffled) {
                unshuffle(plain.data(), elements, static_cast<std::size_t>(first),
                          static_cast<std::size_t>(run), element, into);
            } else {
                std::memcpy(into, plain.data() + first * element_bytes_,
                            static_cast<std::size_t>(run) * element);
            }
        };
        std::int64_t first = first_ + (top - chunk.row) * row_step_ + (left - chunk.col) * col_step_;
        for (; rows > 0; --rows, place += row_bytes, first += row_step_) {
            for (std::int64_t i = 0; i < count; i += run)
                copy(first + i * col_step_, place + i * element_bytes_);
            swap_bytes(place, static_cast<std::size_t>(count) * element, source_.element.swap_bytes);
        }
    }

    /// Datasets can keep all filters from chunks that the matrix does not fill.
    [[nodiscard]] std::uint32_t skipped_filters(const Placed& placed) const {
        const auto corner = corner_of(placed.chunk);
        bool partial = false;
        for (std::size_t i = 0; i < corner_.size(); ++i)
            partial |= dense_.window.extents[i] - corner[i] < dense_.edges[i];
        return partial && dense_.plain_edges ? ~std::uint32_t{0} : placed.stored.mask();
    }

    /// One element, then again and again a copy of all that is there.
    void fill_run(std::byte* to, std::int64_t count) const {
        const auto bytes = static_cast<std::size_t>(count * element_bytes_);
        std::memcpy(to, fill_.data(), fill_.size());
        for (std::size_t done = fill_.size(); done < bytes; done *= 2)
            std::memcpy(to + done, to, std::min(done, bytes - done));
    }

    const Source& source_;
    const Dense& dense_;
    int most_threads_;
    std::int64_t element_bytes_;
    std::int64_t row_step_;  ///< in a chunk, from a row to the next
    std::int64_t col_step_;
    Extents corner_;          ///< the first elements of chunks, in the dimensions that stay as they are
    std::int64_t first_ = 0;  ///< in a chunk, the first element that may be one of the matrix
    std::size_t most_stored_bytes_;  ///< that a chunk can take in the file
    std::uint64_t working_bytes_;    ///< of one thread with one chunk
    int threads_ = 1;
    std::size_t fetch_bytes_ = 0;  ///< that a thread fetches before it decodes
    std::vector<std::byte> fill_;  ///< one element; empty where none is defined
};

}  // namespace

std::unique_ptr<Storage> open_chunked_storage(const Source& source, const Dense& dense,
                                              const ReadOptions& options) {
    if (!std::ranges::all_of(dense.filters, Unfilter::known)) return nullptr;
    return std::make_unique<ChunkedStorage>(source, dense, options);
}

}  // namespace gpumat::formats::hdf5
