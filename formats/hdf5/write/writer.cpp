#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/descriptor.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "formats/deflate.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/read/filters.hpp"
#include "formats/hdf5/write/dataset_file.hpp"
#include "formats/hdf5/write/file_mapping.hpp"
#include "formats/hdf5/write/in_order.hpp"
#include "formats/hdf5/write/matlab.hpp"
#include "formats/hdf5/write/sparse.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::int64_t kDefaultChunkEdge = 512;
constexpr std::int64_t kDefaultChunkElements = kDefaultChunkEdge * kDefaultChunkEdge;
constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;  ///< of one write to the file

/// Fewer threads write as fast one after the other: page faults cost more than the lock.
constexpr int kThreadsForMapping = 4;
constexpr std::int64_t kReservedBytes = std::int64_t{1} << 28;     ///< at a time, where memory has a limit
constexpr std::int64_t kMappedPieceBytes = std::int64_t{1} << 20;  ///< that a thread copies at a time

/// The chunk in which to store, or nothing for a contiguous dataset. Throws Error{usage} for options that
/// HDF5 cannot honour.
std::optional<Shape> chunk_for(const Shape& shape, Type type, const WriteOptions& options) {
    if (options.deflate < 0 || options.deflate > 9) {
        throw Error(ErrorCode::usage,
                    "the compression level is " + std::to_string(options.deflate) + ", expected 0 to 9");
    }
    if (options.chunk) {
        const Shape chunk{options.chunk->first, options.chunk->second};
        if (chunk.rows < 1 || chunk.cols < 1)
            throw Error(ErrorCode::usage, "the chunk is " + to_string(chunk) + ", expected at least 1x1");
        if (dense_bytes(chunk, type, "the chunk") >> 32 != 0)
            throw Error(ErrorCode::usage, "the chunk " + to_string(chunk) + " is larger than HDF5's 4 GiB");
        if (shape.rows == 0 || shape.cols == 0) return {};
        return Shape{std::min(chunk.rows, shape.rows), std::min(chunk.cols, shape.cols)};
    }
    const bool filtered = options.deflate > 0 || options.shuffle || options.fletcher32;
    if (!filtered || shape.rows == 0 || shape.cols == 0) return {};
    const std::int64_t narrow = std::min({shape.rows, shape.cols, kDefaultChunkEdge});
    const std::int64_t wide = kDefaultChunkElements / narrow;
    return Shape{std::min(shape.rows, shape.cols < kDefaultChunkEdge ? wide : kDefaultChunkEdge),
                 std::min(shape.cols, shape.rows < kDefaultChunkEdge ? wide : kDefaultChunkEdge)};
}

/// A chunk as it is to be stored.
struct Stored {
    std::array<hsize_t, 2> at{};
    std::uint32_t skipped = 0;  ///< a bit for each filter that was not applied
    std::vector<std::byte> bytes;
};

std::uint64_t chunk_bytes(const Shape& chunk, Type type) {
    return static_cast<std::uint64_t>(chunk.elements()) * size_of(type);
}

/// What a thread takes while it stores a chunk, in chunks: the elements, a copy behind each filter, and one
/// as it is stored.
std::uint64_t chunk_copies(const WriteOptions& options) {
    const bool filtered = options.shuffle || options.deflate > 0 || options.fletcher32;
    return 1U + (options.shuffle ? 1U : 0U) + (options.deflate > 0 ? 1U : 0U) + (filtered ? 1U : 0U);
}

constexpr std::uint64_t kWaiting = 3;  ///< stored chunks that wait for their turn, of each of several threads

class Hdf5Writer final : public Writer {
  public:
    Hdf5Writer(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options,
               const SparseGroup* part_of = nullptr)
        : target_(target),
          options_(options),
          shape_(shape),
          type_(type),
          element_bytes_(static_cast<std::int64_t>(size_of(type))),
          shown_(name_in_messages(target)) {
        dense_bytes(shape, type, shown_);  // throws where the size passes what can be computed with
        chunk_ = chunk_for(shape, type, options);
        file_ = create_dataset_file(target, {shape, type, chunk_, options, part_of});
        if (!chunk_) make_room();
    }

    [[nodiscard]] BlockOrder order() const override { return BlockOrder::any; }
    [[nodiscard]] Shape grain() const override { return chunk_.value_or(Shape{1, 1}); }

    void write(const Block& block, const MatrixView& in) override {
        if (in.shape != block.shape() || in.type != type_ || !block.inside(shape_)) {
            throw Error(ErrorCode::output, shown_ + ": a block of " + to_string(block.shape()) + " at row " +
                                               std::to_string(block.row + 1) + ", column " +
                                               std::to_string(block.col + 1) + " does not fit the matrix");
        }
        written_ += block.rows * block.cols;
        if (block.rows == 0 || block.cols == 0) return;
        if (chunk_) {
            write_chunks(block, in);
        } else {
            write_contiguous(block, in);
        }
    }

    std::optional<std::int64_t> hand_over() override {
        if (chunk_) return {};
        written_ = shape_.elements();
        return written_ == 0 ? 0 : static_cast<std::int64_t>(file_->offset());
    }

    [[nodiscard]] std::vector<std::string> left_out() const override { return file_->left_out(); }

    void annotate(const std::vector<std::pair<std::string, std::string>>& attributes) override {
        for (const auto& [name, value] : attributes) file_->put_attribute(name, value);
    }

    void finish() override {
        if (written_ != shape_.elements()) {
            throw Error(ErrorCode::output, shown_ + ": " + std::to_string(written_) +
                                               " elements were written, expected " +
                                               std::to_string(shape_.elements()));
        }
        file_->close();
    }

  private:
    [[noreturn]] void failed_with_errno() const {
        throw Error(ErrorCode::output, shown_ + ": cannot be written: " + std::strerror(errno));
    }

    /// A disk that is too small is not filled first.
    void require_space(std::int64_t bytes) const {
        struct statvfs system {};
        // One that has no bound, as memory has, says that it has no blocks at all.
        if (fstatvfs(target_.descriptor, &system) != 0 || system.f_blocks == 0) return;
        const auto blocks = static_cast<std::uint64_t>(system.f_bavail);
        const std::uint64_t room = saturating_multiply(blocks, system.f_frsize);
        const auto needed = static_cast<std::uint64_t>(bytes);
        if (needed <= room) return;
        throw Error(ErrorCode::output, shown_ + ": cannot be written: " + std::strerror(ENOSPC) +
                                           ", which has " + format_bytes(room) + " for " +
                                           format_need(needed));
    }

    /// A disk that has too little space left is an error at once.
    void make_room() {
        const std::int64_t bytes = shape_.elements() * element_bytes_;
        if (bytes == 0) return;
        require_space(bytes);
        reserve(1);
        // What is mapped counts as this process's memory.
        const bool maps = !options_.memory_limit && options_.threads >= kThreadsForMapping;
        if (reserves_ && !target_.append && maps && bytes >= kPieceBytes)
            mapping_.open(target_.descriptor, file_->offset(), static_cast<std::size_t>(bytes));
    }

    /// Takes the disk's space for the elements' bytes before `end`, and for others behind them: for all, but
    /// where memory has a limit, for reading would then wait until it is done. File systems that cannot
    /// reserve say so when data come.
    void reserve(std::int64_t end) {
        if (!reserves_ || end <= reserved_) return;
        const std::int64_t all = shape_.elements() * element_bytes_;
        const std::int64_t ahead = options_.memory_limit ? kReservedBytes : all;
        const std::int64_t bytes = std::min(all, std::max(end, reserved_ + ahead)) - reserved_;
        const auto from = static_cast<off_t>(file_->offset()) + static_cast<off_t>(reserved_);
        while (fallocate(target_.descriptor, 0, from, bytes) != 0) {
            if (errno == EINTR) continue;
            if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || reserved_ > 0) failed_with_errno();
            reserves_ = false;
            return;
        }
        reserved_ += bytes;
    }

    void write_bytes(const std::byte* data, std::int64_t bytes, std::int64_t offset) const {
        errno = write_at(target_.descriptor, data, static_cast<std::size_t>(bytes),
                         static_cast<std::uint64_t>(offset), kPieceBytes);
        if (errno != 0) failed_with_errno();
    }

    /// Straight into the dataset's place in the file: no conversion is due. File systems let one thread at a
    /// time write into a file; into a mapping of it all threads can.
    void write_contiguous(const Block& block, const MatrixView& in) {
        reserve((block.row + block.rows) * shape_.cols * element_bytes_);
        if (mapping_.data() != nullptr) return write_mapped(block, in);
        const auto start = static_cast<std::int64_t>(file_->offset());
        const std::int64_t row_bytes = block.cols * element_bytes_;
        const bool gapless = block.cols == shape_.cols && in.ld == block.cols;
        const std::int64_t run = gapless ? block.rows : 1;  // rows that lie side by side on both sides
        for (std::int64_t i = 0; i < block.rows; i += run) {
            write_bytes(in.data + i * in.ld * element_bytes_, run * row_bytes,
                        start + ((block.row + i) * shape_.cols + block.col) * element_bytes_);
        }
    }

    void write_mapped(const Block& block, const MatrixView& in) const {
        const std::int64_t row_bytes = block.cols * element_bytes_;
        const std::int64_t grain = std::max<std::int64_t>(1, kMappedPieceBytes / row_bytes);
        parallel_for(block.rows, grain, options_.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                std::memcpy(mapping_.data() + ((block.row + i) * shape_.cols + block.col) * element_bytes_,
                            in.data + i * in.ld * element_bytes_, static_cast<std::size_t>(row_bytes));
            }
        });
    }

    /// The part of the chunk at (row, col) of the grid that lies in the matrix.
    [[nodiscard]] Block chunk_at(std::int64_t row, std::int64_t col) const {
        const std::int64_t top = row * chunk_->rows;
        const std::int64_t left = col * chunk_->cols;
        return {top, left, std::min(chunk_->rows, shape_.rows - top),
                std::min(chunk_->cols, shape_.cols - left)};
    }

    /// Chunks are compressed by all threads, and go into the file in the order of the grid.
    void write_chunks(const Block& block, const MatrixView& in) {
        const std::int64_t first_row = block.row / chunk_->rows;
        const std::int64_t first_col = block.col / chunk_->cols;
        const std::int64_t rows = (block.row + block.rows - 1) / chunk_->rows - first_row + 1;
        const std::int64_t cols = (block.col + block.cols - 1) / chunk_->cols - first_col + 1;
        const std::uint64_t most = options_.memory_limit ? *options_.memory_limit : available_memory_bytes();
        const auto affordable = static_cast<std::int64_t>(most / (chunk_copies(options_) + kWaiting) /
                                                          chunk_bytes(*chunk_, type_));
        const auto workers = static_cast<int>(
            std::max<std::int64_t>(1, std::min({std::int64_t{options_.threads}, rows * cols, affordable})));
        InOrder<Stored> order(2 * workers, [&](const Stored& chunk) {
            if (!chunk.bytes.empty()) file_->put_chunk(chunk.at, chunk.skipped, chunk.bytes);
        });
        std::atomic<std::int64_t> next{0};
        parallel_for(workers, 1, workers, [&](std::int64_t, std::int64_t) {
            const auto release = order.abandon_on_failure();
            Scratch scratch;
            for (std::int64_t i = next++; i < rows * cols; i = next++) {
                const Block chunk = chunk_at(first_row + i / cols, first_col + i % cols);
                Stored stored = order.spare();
                stored.bytes.clear();
                if (scratch.plain.capacity() == 0) scratch.plain.swap(stored.bytes);
                if (gather(chunk, block, in, scratch)) store(chunk, scratch, stored);
                order.put(i, std::move(stored));
            }
        });
    }

    struct Scratch {
        std::vector<std::byte> plain;
        std::vector<std::byte> shuffled;
        std::vector<std::byte> compressed;
        std::optional<Deflater> deflater;
    };

    /// Brings the chunk's elements together in `scratch.plain`, zeros beyond the matrix. False where some of
    /// them have not come yet: those that have are kept.
    bool gather(const Block& chunk, const Block& block, const MatrixView& in, Scratch& scratch) {
        const std::int64_t top = std::max(chunk.row, block.row);
        const std::int64_t left = std::max(chunk.col, block.col);
        const Block part{top, left, std::min(chunk.row + chunk.rows, block.row + block.rows) - top,
                         std::min(chunk.col + chunk.cols, block.col + block.cols) - left};
        const bool whole = part.shape() == chunk.shape();
        Partial* const partial = whole ? nullptr : &partial_of(chunk);
        std::vector<std::byte>& plain = whole ? scratch.plain : partial->plain;
        const std::int64_t row_bytes = chunk_->cols * element_bytes_;
        if (whole) plain.assign(static_cast<std::size_t>(chunk_->rows * row_bytes), std::byte{0});
        for (std::int64_t i = 0; i < part.rows; ++i) {
            std::memcpy(
                plain.data() + (top - chunk.row + i) * row_bytes + (left - chunk.col) * element_bytes_,
                in.data + ((top - block.row + i) * in.ld + left - block.col) * element_bytes_,
                static_cast<std::size_t>(part.cols * element_bytes_));
        }
        if (whole) return true;
        partial->missing -= part.rows * part.cols;
        if (partial->missing > 0) return false;
        scratch.plain.swap(plain);
        const std::lock_guard lock(partials_mutex_);
        partials_.erase({chunk.row, chunk.col});
        return true;
    }

    /// A chunk of which some elements came.
    struct Partial {
        std::vector<std::byte> plain;
        std::int64_t missing = 0;  ///< elements
    };

    Partial& partial_of(const Block& chunk) {
        const std::lock_guard lock(partials_mutex_);
        Partial& partial = partials_[{chunk.row, chunk.col}];
        if (partial.plain.empty()) {
            partial.plain.resize(static_cast<std::size_t>(chunk_->rows * chunk_->cols * element_bytes_));
            partial.missing = chunk.rows * chunk.cols;
        }
        return partial;
    }

    /// Applies the filters to `scratch.plain`.
    void store(const Block& chunk, Scratch& scratch, Stored& stored) const {
        stored.at = {static_cast<hsize_t>(chunk.row), static_cast<hsize_t>(chunk.col)};
        stored.skipped = 0;
        std::vector<std::byte>* result = &scratch.plain;
        if (options_.shuffle) {
            scratch.shuffled.resize(scratch.plain.size());
            shuffle(scratch.plain.data(), scratch.shuffled.data(), scratch.plain.size(),
                    static_cast<std::size_t>(element_bytes_));
            result = &scratch.shuffled;
        }
        if (options_.deflate > 0) {
            if (!scratch.deflater) scratch.deflater.emplace(options_.deflate);
            if (scratch.deflater->deflate(*result, scratch.compressed)) {
                result = &scratch.compressed;
            } else {
                stored.skipped = 1U << (options_.shuffle ? 1 : 0);  // the filter's place in the pipeline
            }
        }
        if (options_.fletcher32) append_checksum(*result);
        stored.bytes.swap(*result);
    }

    WriteTarget target_;
    WriteOptions options_;
    Shape shape_;
    Type type_;
    std::int64_t element_bytes_;
    std::string shown_;
    std::int64_t written_ = 0;  ///< elements
    std::optional<Shape> chunk_;
    std::unique_ptr<DatasetFile> file_;
    bool reserves_ = true;       ///< space for contiguous elements
    std::int64_t reserved_ = 0;  ///< their bytes that have it
    FileMapping mapping_;        ///< of them; none where one thread is as fast
    std::mutex partials_mutex_;
    std::map<std::pair<std::int64_t, std::int64_t>, Partial> partials_;  ///< by their first element
};

}  // namespace

namespace {

/// What is stored of it where the dimensions are reversed.
WriteOptions reversed(WriteOptions options) {
    if (options.chunk) std::swap(options.chunk->first, options.chunk->second);
    return options;
}

std::optional<Shape> chunk_of_matrix(const Shape& shape, Type type, const WriteOptions& options) {
    if (!options.matlab) return chunk_for(shape, type, options);
    const auto chunk = chunk_for(shape.transposed(), type, reversed(options));
    return chunk ? std::optional(chunk->transposed()) : std::nullopt;
}

}  // namespace

void require_writable(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options) {
    if (options.sparse_layout) return require_sparse_writable(target, type, options);
    const std::string what = name_in_messages(target);
    dense_bytes(shape, type, what);  // throws where the size passes what can be computed with
    if (options.matlab) require_matlab(shape, type, what);
    chunk_of_matrix(shape, type, options);
    if (target.append) require_room(target);
}

std::uint64_t writing_bytes(const Shape& shape, Type type, const WriteOptions& options) {
    const std::optional<Shape> chunk = chunk_of_matrix(shape, type, options);
    return (chunk ? chunk_copies(options) * chunk_bytes(*chunk, type) : 0) +
           (options.matlab ? reversing_bytes(shape, type, chunk.value_or(Shape{1, 1})) : 0);
}

Shape writing_grain(const Shape& shape, Type type, const WriteOptions& options) {
    return chunk_of_matrix(shape, type, options).value_or(Shape{1, 1});
}

std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options) {
    if (!options.matlab) return std::make_unique<Hdf5Writer>(target, shape, type, options);
    require_matlab(shape, type, name_in_messages(target));
    return reversed_writer(std::make_unique<Hdf5Writer>(target, shape.transposed(), type, reversed(options)),
                           type, options.threads);
}

std::unique_ptr<Writer> create_part(const WriteTarget& target, std::int64_t count, Type type,
                                    const WriteOptions& options, const SparseGroup& group) {
    return std::make_unique<Hdf5Writer>(target, Shape{count, 1}, type, options, &group);
}

}  // namespace gpumat::formats::hdf5
