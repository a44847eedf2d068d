#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <span>

#include "formats/hdf5/filters.hpp"
#include "formats/hdf5/library_filters.hpp"
#include "formats/hdf5/raw.hpp"
#include "formats/hdf5/stored_chunk.hpp"
#include "lib/core/memory.hpp"
#include "lib/core/parallel.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// Bytes that a thread fetches before it lets the others fetch: waking one takes as long as some small
/// chunks.
constexpr std::size_t kFetchBytes = std::size_t{512} << 10;
constexpr std::int64_t kMostFetched = 16;

/// Of chunks without filters: converts their elements to `Element::memory`, as H5Dread would. To be used
/// under a Session.
class Converter : public ChunkDecoder {
  public:
    Converter(const Source& source, const Dense& dense)
        : memory_type_(source.element.memory.id()),
          stored_type_(take(H5Dget_type(dense.dataset.id()), ErrorCode::input, source.name)),
          elements_(static_cast<std::size_t>(dense.chunk.rows * dense.chunk.cols)),
          converted_bytes_(elements_ * source.element.memory_bytes),
          converted_(std::max(elements_ * source.element.stored_bytes, converted_bytes_)),
          background_(converted_bytes_) {}

    /// The memory that it takes, with the chunk itself.
    static std::uint64_t memory_bytes(std::uint64_t chunk_bytes, std::uint64_t result_bytes) {
        return chunk_bytes + std::max(chunk_bytes, result_bytes) + result_bytes;
    }

    std::span<const std::byte> apply(std::span<const std::byte> data, std::uint32_t /*mask*/, bool& shuffled,
                                     const std::string& what) override {
        shuffled = false;
        const std::size_t chunk_bytes = elements_ * H5Tget_size(stored_type_.id());
        if (data.size() != chunk_bytes) {
            throw Error(ErrorCode::input, what + " holds " + std::to_string(data.size()) +
                                              " bytes, expected " + std::to_string(chunk_bytes));
        }
        std::ranges::copy(data, converted_.begin());
        require(H5Tconvert(stored_type_.id(), memory_type_, elements_, converted_.data(), background_.data(),
                           H5P_DEFAULT),
                ErrorCode::input, what + " cannot be converted");
        return std::span(converted_).first(converted_bytes_);
    }

  private:
    hid_t memory_type_;
    Handle stored_type_;
    std::size_t elements_;  ///< of a chunk
    std::size_t converted_bytes_;
    std::vector<std::byte> converted_;
    std::vector<std::byte> background_;  ///< what members of compounds that are not converted would keep
};

/// How the chunks of a dataset are decoded.
struct Decoding {
    std::function<std::unique_ptr<ChunkDecoder>()> start;  ///< for one thread
    std::size_t most_stored_bytes = 0;                     ///< that a chunk can take in the file
    std::size_t swap_bytes = 1;                            ///< numbers of this size are reversed afterwards
    int threads = 1;
};

/// Chunks are fetched by one thread at a time, as stored, and their filters undone in parallel.
class ChunkedStorage : public Storage {
  public:
    ChunkedStorage(const Source& source, const Dense& dense, Decoding decoding)
        : source_(source),
          dense_(dense),
          decoding_(std::move(decoding)),
          element_bytes_(static_cast<std::int64_t>(source.element.memory_bytes)),
          fill_(fill_value(source, dense)) {}

    void read(const Block& rect, std::byte* to, std::int64_t row_bytes) override {
        if (rect.rows == 0 || rect.cols == 0) return;
        const std::int64_t first_row = rect.row / dense_.chunk.rows;
        const std::int64_t first_col = rect.col / dense_.chunk.cols;
        const std::int64_t rows = (rect.row + rect.rows - 1) / dense_.chunk.rows - first_row + 1;
        const std::int64_t cols = (rect.col + rect.cols - 1) / dense_.chunk.cols - first_col + 1;
        const std::int64_t chunks = rows * cols;
        const auto workers = static_cast<int>(std::min<std::int64_t>(decoding_.threads, chunks));
        const std::int64_t grain = std::clamp<std::int64_t>(chunks / (4 * workers), 1, kMostFetched);
        const auto chunk_at = [&](std::int64_t i) {
            return Block{(first_row + i / cols) * dense_.chunk.rows,
                         (first_col + i % cols) * dense_.chunk.cols, dense_.chunk.rows, dense_.chunk.cols};
        };
        std::atomic<std::int64_t> next{0};
        parallel_for(workers, 1, workers, [&](std::int64_t, std::int64_t) {
            const auto decoder = decoding_.start();
            std::vector<Placed> fetched(static_cast<std::size_t>(grain));
            try {
                for (std::int64_t i = next.fetch_add(grain); i < chunks; i = next.fetch_add(grain)) {
                    const std::int64_t end = std::min(i + grain, chunks);
                    for (std::int64_t first = i; first < end;) {
                        const std::size_t count = fetch_some(first, end, chunk_at, fetched);
                        for (std::size_t k = 0; k < count; ++k)
                            deliver(fetched[k], rect, to, row_bytes, *decoder);
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
    /// A chunk as it is in the file, and where it belongs.
    struct Placed {
        Block chunk;
        StoredChunk stored;
    };

    [[nodiscard]] std::string name_of_chunk(const Block& chunk) const {
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
        for (std::int64_t i = first; i < end && bytes < kFetchBytes; ++i, ++count) {
            fetched[count].chunk = chunk_at(i);
            fetch(fetched[count]);
            bytes += fetched[count].stored.bytes().size();
        }
        return count;
    }

    void fetch(Placed& placed) const {
        const std::array<hsize_t, 2> place = {static_cast<hsize_t>(placed.chunk.row),
                                              static_cast<hsize_t>(placed.chunk.col)};
        placed.stored.read(dense_.dataset.id(), place.data(), decoding_.most_stored_bytes,
                           [&] { return name_of_chunk(placed.chunk); });
    }

    /// Undoes the filters of a chunk and puts what of it lies in `rect` where it belongs.
    void deliver(const Placed& placed, const Block& rect, std::byte* to, std::int64_t row_bytes,
                 ChunkDecoder& decoder) const {
        const Block& chunk = placed.chunk;
        const std::int64_t top = std::max(chunk.row, rect.row);
        const std::int64_t left = std::max(chunk.col, rect.col);
        const std::int64_t bottom = std::min(chunk.row + chunk.rows, rect.row + rect.rows);
        const std::int64_t count = std::min(chunk.col + chunk.cols, rect.col + rect.cols) - left;
        const auto target = [&](std::int64_t row) {
            return to + (row - rect.row) * row_bytes + (left - rect.col) * element_bytes_;
        };
        if (placed.stored.bytes().empty()) {
            if (fill_.empty())
                throw Error(
                    ErrorCode::input,
                    name_of_chunk(chunk) + " was never written, and the dataset defines no fill value");
            for (std::int64_t row = top; row < bottom; ++row) fill_row(target(row), count);
            return;
        }
        bool shuffled = false;
        const auto plain =
            decoder.apply(placed.stored.bytes(), skipped_filters(placed), shuffled, name_of_chunk(chunk));
        const auto bytes = static_cast<std::size_t>(count * element_bytes_);
        for (std::int64_t row = top; row < bottom; ++row) {
            const std::int64_t first = (row - chunk.row) * chunk.cols + left - chunk.col;
            if (shuffled) {
                unshuffle(plain.data(), static_cast<std::size_t>(chunk.rows * chunk.cols),
                          static_cast<std::size_t>(first), static_cast<std::size_t>(count),
                          static_cast<std::size_t>(element_bytes_), target(row));
            } else {
                std::memcpy(target(row), plain.data() + first * element_bytes_, bytes);
            }
            swap_bytes(target(row), bytes, decoding_.swap_bytes);
        }
    }

    /// Datasets can keep all filters from chunks that the matrix does not fill.
    [[nodiscard]] std::uint32_t skipped_filters(const Placed& placed) const {
        const Block& chunk = placed.chunk;
        const bool partial =
            chunk.row + chunk.rows > source_.stored.rows || chunk.col + chunk.cols > source_.stored.cols;
        return partial && dense_.plain_edges ? ~std::uint32_t{0} : placed.stored.mask();
    }

    void fill_row(std::byte* to, std::int64_t count) const {
        for (std::int64_t i = 0; i < count; ++i)
            std::memcpy(to + i * element_bytes_, fill_.data(), fill_.size());
    }

    const Source& source_;
    const Dense& dense_;
    Decoding decoding_;
    std::int64_t element_bytes_;
    std::vector<std::byte> fill_;  ///< one element; empty where none is defined
};

/// As many threads as there is memory for, each with a chunk as stored and before its filters. Throws
/// where there is too little for one: a small file can have chunks of 4 GiB.
int threads_for(const Source& source, const Dense& dense, std::size_t chunk_bytes,
                const ReadOptions& options) {
    const std::uint64_t bytes = 2 * static_cast<std::uint64_t>(chunk_bytes);
    require_memory(bytes, options.memory_limit,
                   source.name + ": reading chunks of " + to_string(dense.chunk));
    const std::uint64_t most = options.memory_limit.value_or(available_memory_bytes());
    return static_cast<int>(
        std::clamp<std::uint64_t>(most / bytes, 1, static_cast<std::uint64_t>(std::max(1, options.threads))));
}

}  // namespace

std::unique_ptr<Storage> open_chunked_storage(const Source& source, const Dense& dense,
                                              const ReadOptions& options) {
    if (!std::ranges::all_of(dense.filters, Unfilter::known)) return nullptr;
    const std::size_t element = source.element.memory_bytes;
    const std::size_t chunk_bytes = static_cast<std::size_t>(dense.chunk.rows * dense.chunk.cols) * element;
    const auto start = [&dense, chunk_bytes, element] {
        return std::make_unique<Unfilter>(dense.filters, chunk_bytes, element);
    };
    return std::make_unique<ChunkedStorage>(
        source, dense,
        Decoding{start, start()->most_stored_bytes(), source.element.swap_bytes,
                 threads_for(source, dense, chunk_bytes, options)});
}

std::unique_ptr<Storage> open_library_chunks(const Source& source, const Dense& dense) {
    const std::size_t chunk_bytes =
        static_cast<std::size_t>(dense.chunk.rows * dense.chunk.cols) * source.element.stored_bytes;
    const bool plain = dense.filters.empty();
    const auto start = [&source, &dense, plain]() -> std::unique_ptr<ChunkDecoder> {
        if (plain) return std::make_unique<Converter>(source, dense);
        return std::make_unique<LibraryUnfilter>(source, dense);
    };
    const std::size_t most_bytes = plain ? chunk_bytes : LibraryUnfilter::most_stored_bytes(chunk_bytes);
    return std::make_unique<ChunkedStorage>(source, dense, Decoding{start, most_bytes, 1, 1});
}

std::uint64_t library_chunk_bytes(const Source& source, const Dense& dense) {
    const auto elements = static_cast<std::uint64_t>(dense.chunk.rows * dense.chunk.cols);
    const std::uint64_t chunk_bytes = elements * source.element.stored_bytes;
    const std::uint64_t result_bytes = elements * source.element.memory_bytes;
    return dense.filters.empty() ? Converter::memory_bytes(chunk_bytes, result_bytes)
                                 : LibraryUnfilter::memory_bytes(chunk_bytes, result_bytes);
}

}  // namespace gpumat::formats::hdf5
