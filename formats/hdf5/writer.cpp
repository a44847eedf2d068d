#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "formats/hdf5/attributes.hpp"
#include "formats/hdf5/coverage.hpp"
#include "formats/hdf5/element.hpp"
#include "formats/hdf5/filters.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/probe.hpp"
#include "lib/core/parallel.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr const char* kDefaultDataset = "/A";
constexpr std::int64_t kDefaultChunkEdge = 512;
constexpr std::int64_t kDefaultChunkElements = kDefaultChunkEdge * kDefaultChunkEdge;
constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;  ///< of one write to the file

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
        if (chunk.rows > shape.rows || chunk.cols > shape.cols) {
            throw Error(ErrorCode::usage,
                        "the chunk " + to_string(chunk) + " is larger than the matrix " + to_string(shape));
        }
        return chunk;
    }
    const bool filtered = options.deflate > 0 || options.shuffle;
    if (!filtered || shape.rows == 0 || shape.cols == 0) return {};
    const std::int64_t narrow = std::min({shape.rows, shape.cols, kDefaultChunkEdge});
    const std::int64_t wide = kDefaultChunkElements / narrow;
    return Shape{std::min(shape.rows, shape.cols < kDefaultChunkEdge ? wide : kDefaultChunkEdge),
                 std::min(shape.cols, shape.rows < kDefaultChunkEdge ? wide : kDefaultChunkEdge)};
}

std::string absolute(const std::string& dataset) {
    if (dataset.empty()) return kDefaultDataset;
    if (dataset.ends_with('/')) throw Error(ErrorCode::usage, "'" + dataset + "' names no dataset to write");
    return dataset.starts_with('/') ? dataset : "/" + dataset;
}

/// The dataset that `target` means, for messages.
std::string shown(const WriteTarget& target) {
    return (target.shown.empty() ? target.path : target.shown) + ":" + absolute(target.dataset);
}

Handle open_existing(const WriteTarget& target, unsigned flags) {
    return take(H5Fopen(target.path.c_str(), flags, H5P_DEFAULT), ErrorCode::output,
                shown(target) + ": cannot be opened");
}

/// Where a soft or external link leads, in words.
std::string link_target(hid_t file, const std::string& name, const H5L_info_t& link) {
    if (link.type != H5L_TYPE_SOFT && link.type != H5L_TYPE_EXTERNAL)
        return "a place that HDF5 does not know";
    std::vector<char> value(link.u.val_size + 1, '\0');
    if (H5Lget_val(file, name.c_str(), value.data(), link.u.val_size, H5P_DEFAULT) < 0) return "nowhere";
    if (link.type == H5L_TYPE_SOFT) return value.data();
    const char* other = "";
    const char* object = "";
    H5Lunpack_elink_val(value.data(), link.u.val_size, nullptr, &other, &object);
    return std::string(other) + ":" + object;
}

/// What bears the name may go, and is a dataset of this file that has no other name. A link is not replaced,
/// nor one of several names: the dataset behind it would stay, and keep its old values.
void require_replaceable(hid_t file, const std::string& name, const WriteTarget& target) {
    const std::string what = shown(target);
    H5L_info_t link{};
    H5O_info_t object{};
    require(H5Lget_info(file, name.c_str(), &link, H5P_DEFAULT), ErrorCode::output, what);
    if (link.type != H5L_TYPE_HARD) {
        throw Error(ErrorCode::output,
                    what + ": is a link to " + link_target(file, name, link) +
                        ", and is not replaced; name the dataset that is meant, or another one");
    }
    require(H5Oget_info_by_name2(file, name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT), ErrorCode::output,
            what);
    if (object.type == H5O_TYPE_DATASET && object.rc > 1) {
        throw Error(ErrorCode::output, what + ": the dataset has " + std::to_string(object.rc) +
                                           " names in the file (hard links), and is not replaced: the others "
                                           "would keep the old values; name another dataset");
    }
    if (!target.replace)
        throw Error(ErrorCode::output, what + ": the dataset exists already; --force replaces it");
    if (object.type != H5O_TYPE_DATASET)
        throw Error(ErrorCode::output, what + ": is no dataset, and is not replaced");
}

/// Whether something in a file that exists bears the dataset's name, and may be replaced. Throws where it
/// may not, and where the way to it does not lead through groups of this file.
bool is_taken(hid_t file, const WriteTarget& target) {
    const std::string what = shown(target);
    const std::string name = absolute(target.dataset);
    for (std::size_t end = 0; end != std::string::npos;) {
        end = name.find('/', end + 1);
        const std::string prefix = name.substr(0, end);
        const htri_t exists = H5Lexists(file, prefix.c_str(), H5P_DEFAULT);
        if (exists < 0) fail(ErrorCode::output, what + ": cannot be written");
        if (exists == 0) return false;
        if (end == std::string::npos) break;
        H5L_info_t link{};
        H5O_info_t object{};
        require(H5Lget_info(file, prefix.c_str(), &link, H5P_DEFAULT), ErrorCode::output, what);
        if (link.type != H5L_TYPE_HARD)
            throw Error(ErrorCode::output, what + ": '" + prefix + "' is a link, expected a group");
        require(H5Oget_info_by_name2(file, prefix.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT),
                ErrorCode::output, what);
        if (object.type != H5O_TYPE_GROUP)
            throw Error(ErrorCode::output, what + ": '" + prefix + "' is no group");
    }
    require_replaceable(file, name, target);
    return true;
}

class Hdf5Writer : public Writer {
  public:
    Hdf5Writer(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options)
        : target_(target),
          options_(options),
          shape_(shape),
          type_(type),
          element_bytes_(static_cast<std::int64_t>(size_of(type))),
          dataset_name_(absolute(target.dataset)),
          shown_(shown(target)),
          coverage_(shape) {
        require_writable(target, shape, type, options);
        const std::optional<Shape> chunk = chunk_for(shape, type, options);
        const Session session;
        open_file();
        if (target.append && is_taken(file_.id(), target))
            require(H5Ldelete(file_.id(), dataset_name_.c_str(), H5P_DEFAULT), ErrorCode::output, shown_);
        create_dataset(chunk);
        for (const auto& [name, value] : options.attributes) write_attribute(name, value);
        if (const auto* source = dynamic_cast<const AttributeSource*>(options.attributes_of))
            keep_attributes(*source);
    }

    [[nodiscard]] BlockOrder order() const override { return BlockOrder::any; }

    void write(const Block& block, const MatrixView& in) override {
        if (in.shape != block.shape() || in.type != type_ || !coverage_.add(block)) {
            throw Error(ErrorCode::output, shown_ + ": a block of " + to_string(block.shape()) + " at row " +
                                               std::to_string(block.row + 1) + ", column " +
                                               std::to_string(block.col + 1) +
                                               " does not fit the matrix, or was written before");
        }
        if (block.rows == 0 || block.cols == 0) return;
        if (chunk_) {
            write_chunks(block, in);
        } else {
            write_contiguous(block, in);
        }
    }

    [[nodiscard]] std::vector<std::string> left_out() const override { return left_out_; }

    void finish() override {
        if (!coverage_.complete()) {
            throw Error(ErrorCode::output, shown_ + ": only " + std::to_string(coverage_.elements()) +
                                               " of " + std::to_string(shape_.elements()) +
                                               " elements were written");
        }
        {
            const Session session;
            if (!dataset_.close()) failed();
            require(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), ErrorCode::output,
                    shown_ + ": cannot be written");
            if (!file_.close()) failed();
        }
        flush_to_disk();
    }

  private:
    [[noreturn]] void failed() const { fail(ErrorCode::output, shown_ + ": cannot be written"); }

    [[noreturn]] void failed_with_errno() const {
        throw Error(ErrorCode::output, shown_ + ": cannot be written: " + std::strerror(errno));
    }

    void open_file() {
        file_ = target_.append
                    ? open_existing(target_, H5F_ACC_RDWR)
                    : take(H5Fcreate(target_.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                           ErrorCode::output, shown_ + ": cannot be created");
        void* handle = nullptr;
        require(H5Fget_vfd_handle(file_.id(), H5P_DEFAULT, &handle), ErrorCode::output, shown_);
        descriptor_ = *static_cast<int*>(handle);
    }

    void create_dataset(const std::optional<Shape>& chunk) {
        const std::string what = shown_ + ": cannot be created";
        const std::array<hsize_t, 2> extents = {static_cast<hsize_t>(shape_.rows),
                                                static_cast<hsize_t>(shape_.cols)};
        const Handle space = take(H5Screate_simple(2, extents.data(), nullptr), ErrorCode::output, what);
        const Handle stored = hdf5_type_of(type_);
        const Handle creation = take(H5Pcreate(H5P_DATASET_CREATE), ErrorCode::output, what);
        H5Pset_obj_track_times(creation.id(), false);  // the same matrix gives the same file
        if (chunk) {
            const std::array<hsize_t, 2> edges = {static_cast<hsize_t>(chunk->rows),
                                                  static_cast<hsize_t>(chunk->cols)};
            require(H5Pset_chunk(creation.id(), 2, edges.data()), ErrorCode::output, what);
            if (options_.shuffle) require(H5Pset_shuffle(creation.id()), ErrorCode::output, what);
            if (options_.deflate > 0) {
                require(H5Pset_deflate(creation.id(), static_cast<unsigned>(options_.deflate)),
                        ErrorCode::output, what);
            }
        } else {  // its place in the file is known at once, and every element will be written
            H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
            H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
        }
        const Handle links = take(H5Pcreate(H5P_LINK_CREATE), ErrorCode::output, what);
        H5Pset_create_intermediate_group(links.id(), 1);
        H5Pset_char_encoding(links.id(), H5T_CSET_UTF8);
        dataset_ = take(H5Dcreate2(file_.id(), dataset_name_.c_str(), stored.id(), space.id(), links.id(),
                                   creation.id(), H5P_DEFAULT),
                        ErrorCode::output, what);
        chunk_ = chunk;
        if (!chunk_ && shape_.elements() > 0) {
            offset_ = H5Dget_offset(dataset_.id());
            if (offset_ == HADDR_UNDEF) failed();
        }
    }

    /// Attributes given by name go before those of the source.
    void keep_attributes(const AttributeSource& source) {
        if (source.attributed() < 0) return;
        const auto given = [&](const std::string& name) {
            return std::ranges::any_of(options_.attributes,
                                       [&](const auto& attribute) { return attribute.first == name; });
        };
        left_out_ = copy_attributes(source.attributed(), dataset_.id(), given, source.name());
    }

    void write_attribute(const std::string& name, const std::string& value) const {
        const std::string what = shown_ + ": the attribute '" + name + "' cannot be written";
        const Handle text(H5Tcopy(H5T_C_S1));
        H5Tset_size(text.id(), H5T_VARIABLE);
        H5Tset_cset(text.id(), H5T_CSET_UTF8);
        const Handle space(H5Screate(H5S_SCALAR));
        const Handle attribute =
            take(H5Acreate2(dataset_.id(), name.c_str(), text.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                 ErrorCode::output, what);
        const char* data = value.c_str();
        require(H5Awrite(attribute.id(), text.id(), static_cast<const void*>(&data)), ErrorCode::output,
                what);
    }

    void write_at(const std::byte* data, std::int64_t bytes, std::int64_t offset) const {
        while (bytes > 0) {
            const ssize_t written =
                pwrite(descriptor_, data, static_cast<std::size_t>(std::min(bytes, kPieceBytes)),
                       static_cast<off_t>(offset));
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) failed_with_errno();
            data += written;
            bytes -= written;
            offset += written;
        }
    }

    /// Straight into the dataset's place in the file: no conversion is due. By one thread, because file
    /// systems let one thread at a time write into a file.
    void write_contiguous(const Block& block, const MatrixView& in) const {
        const auto start = static_cast<std::int64_t>(offset_);
        const std::int64_t row_bytes = block.cols * element_bytes_;
        const bool gapless = block.cols == shape_.cols && in.ld == block.cols;
        const std::int64_t run = gapless ? block.rows : 1;  // rows that lie side by side on both sides
        for (std::int64_t i = 0; i < block.rows; i += run) {
            write_at(in.data + i * in.ld * element_bytes_, run * row_bytes,
                     start + ((block.row + i) * shape_.cols + block.col) * element_bytes_);
        }
    }

    /// The part of the chunk at (row, col) of the grid that lies in the matrix.
    [[nodiscard]] Block chunk_at(std::int64_t row, std::int64_t col) const {
        const std::int64_t top = row * chunk_->rows;
        const std::int64_t left = col * chunk_->cols;
        return {top, left, std::min(chunk_->rows, shape_.rows - top),
                std::min(chunk_->cols, shape_.cols - left)};
    }

    /// Chunks that the block covers are compressed in parallel; HDF5 merges the others with what they hold.
    void write_chunks(const Block& block, const MatrixView& in) const {
        const std::int64_t first_row = block.row / chunk_->rows;
        const std::int64_t first_col = block.col / chunk_->cols;
        const std::int64_t rows = (block.row + block.rows - 1) / chunk_->rows - first_row + 1;
        const std::int64_t cols = (block.col + block.cols - 1) / chunk_->cols - first_col + 1;
        std::atomic<std::int64_t> next{0};
        const int workers =
            static_cast<int>(std::min<std::int64_t>(std::max(1, options_.threads), rows * cols));
        parallel_for(workers, 1, workers, [&](std::int64_t, std::int64_t) {
            Scratch scratch;
            for (std::int64_t i = next++; i < rows * cols; i = next++) {
                const Block chunk = chunk_at(first_row + i / cols, first_col + i % cols);
                const std::int64_t top = std::max(chunk.row, block.row);
                const std::int64_t left = std::max(chunk.col, block.col);
                const Block part{top, left, std::min(chunk.row + chunk.rows, block.row + block.rows) - top,
                                 std::min(chunk.col + chunk.cols, block.col + block.cols) - left};
                const MatrixView view{
                    type_, part.shape(), in.ld,
                    in.data + ((top - block.row) * in.ld + left - block.col) * element_bytes_};
                if (part.shape() == chunk.shape()) {
                    write_chunk(chunk, view, scratch);
                } else {
                    write_part(part, view);
                }
            }
        });
    }

    struct Scratch {
        std::vector<std::byte> plain;
        std::vector<std::byte> shuffled;
        std::vector<std::byte> compressed;
        std::optional<Deflater> deflater;
    };

    void write_chunk(const Block& chunk, const MatrixView& in, Scratch& scratch) const {
        const std::int64_t row_bytes = chunk_->cols * element_bytes_;
        scratch.plain.assign(static_cast<std::size_t>(chunk_->rows * row_bytes), std::byte{0});
        for (std::int64_t i = 0; i < chunk.rows; ++i) {
            std::memcpy(scratch.plain.data() + i * row_bytes, in.data + i * in.ld * element_bytes_,
                        static_cast<std::size_t>(chunk.cols * element_bytes_));
        }
        const std::vector<std::byte>* stored = &scratch.plain;
        if (options_.shuffle) {
            scratch.shuffled.resize(scratch.plain.size());
            shuffle(scratch.plain.data(), scratch.shuffled.data(), scratch.plain.size(),
                    static_cast<std::size_t>(element_bytes_));
            stored = &scratch.shuffled;
        }
        std::uint32_t skipped = 0;
        if (options_.deflate > 0) {
            if (!scratch.deflater) scratch.deflater.emplace(options_.deflate);
            if (scratch.deflater->deflate(*stored, scratch.compressed)) {
                stored = &scratch.compressed;
            } else {
                skipped = 1U << (options_.shuffle ? 1 : 0);  // the filter's place in the pipeline
            }
        }
        const std::array<hsize_t, 2> place = {static_cast<hsize_t>(chunk.row),
                                              static_cast<hsize_t>(chunk.col)};
        const Session session;
        if (H5Dwrite_chunk(dataset_.id(), H5P_DEFAULT, skipped, place.data(), stored->size(),
                           stored->data()) < 0)
            failed();
    }

    void write_part(const Block& part, const MatrixView& in) const {
        const Session session;
        const std::array<hsize_t, 2> start = {static_cast<hsize_t>(part.row), static_cast<hsize_t>(part.col)};
        const std::array<hsize_t, 2> count = {static_cast<hsize_t>(part.rows),
                                              static_cast<hsize_t>(part.cols)};
        const std::array<hsize_t, 2> origin = {0, 0};
        const std::array<hsize_t, 2> extents = {count[0], static_cast<hsize_t>(in.ld)};
        const Handle memory = take(H5Screate_simple(2, extents.data(), nullptr), ErrorCode::output, shown_);
        const Handle file = take(H5Dget_space(dataset_.id()), ErrorCode::output, shown_);
        const Handle stored = hdf5_type_of(type_);
        if (H5Sselect_hyperslab(memory.id(), H5S_SELECT_SET, origin.data(), nullptr, count.data(), nullptr) <
                0 ||
            H5Sselect_hyperslab(file.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) <
                0 ||
            H5Dwrite(dataset_.id(), stored.id(), memory.id(), file.id(), H5P_DEFAULT, in.data) < 0) {
            failed();
        }
    }

    void flush_to_disk() const {
        const int descriptor = ::open(target_.path.c_str(), O_RDWR | O_CLOEXEC);
        if (descriptor < 0) failed_with_errno();
        const bool flushed = fsync(descriptor) == 0 || errno == EINVAL;  // EINVAL: not a thing with a disk
        const int error = errno;
        ::close(descriptor);
        errno = error;
        if (!flushed) failed_with_errno();
    }

    WriteTarget target_;
    WriteOptions options_;
    Shape shape_;
    Type type_;
    std::int64_t element_bytes_;
    std::string dataset_name_;
    std::string shown_;
    Coverage coverage_;
    std::vector<std::string> left_out_;
    Handle file_;
    Handle dataset_;
    std::optional<Shape> chunk_;
    haddr_t offset_ = HADDR_UNDEF;  ///< of a contiguous dataset in the file
    int descriptor_ = -1;           ///< HDF5's own of the file
};

}  // namespace

void require_writable(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options) {
    const std::string what = shown(target);
    dense_bytes(shape, type, what);  // throws where the size passes what can be computed with
    chunk_for(shape, type, options);
    if (!target.append) return;
    const Session session;
    try_in_child(target.path, what, ErrorCode::output, [&] {
        const Handle file = open_existing(target, H5F_ACC_RDONLY);
        static_cast<void>(is_taken(file.id(), target));
    });
}

std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options) {
    return std::make_unique<Hdf5Writer>(target, shape, type, options);
}

}  // namespace gpumat::formats::hdf5
