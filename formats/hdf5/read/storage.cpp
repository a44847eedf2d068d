#include "formats/hdf5/read/storage.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "formats/hdf5/read/external.hpp"
#include "formats/hdf5/read/raw.hpp"
#include "formats/hdf5/sandbox/probe.hpp"
#include "formats/hdf5/sandbox/shared_memory.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// Selects `rect` of the matrix that `window` is in its dataset.
void select(hid_t space, const Window& window, const Block& rect, const std::string& what) {
    if (window.extents.empty()) return;  // the one element is all there is
    std::array<hsize_t, H5S_MAX_RANK> start{};
    std::array<hsize_t, H5S_MAX_RANK> count{};
    std::ranges::copy(window.origin, start.begin());
    count.fill(1);
    const auto choose = [&](int dimension, std::int64_t from, std::int64_t extent) {
        if (dimension < 0) return;
        start[static_cast<std::size_t>(dimension)] += static_cast<hsize_t>(from);
        count[static_cast<std::size_t>(dimension)] = static_cast<hsize_t>(extent);
    };
    choose(window.row, rect.row, rect.rows);
    choose(window.col, rect.col, rect.cols);
    require(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            ErrorCode::input, what);
}

constexpr std::uint64_t kConversionBytes = std::uint64_t{4} << 20;  ///< of HDF5's own buffers and cache
constexpr std::uint64_t kTileBytes = std::uint64_t{64} << 20;       ///< that one child reads, or a chunk
constexpr std::uint64_t kChunkCopies = 3;  ///< that HDF5 holds: as stored, before a filter and behind it

/// Through H5Dread.
class LibraryStorage final : public Storage {
  public:
    LibraryStorage(const Source& source, const Dense& dense)
        : source_(source),
          dense_(dense),
          element_bytes_(static_cast<std::int64_t>(source.element.memory_bytes)) {}

    void read(const Block& rect, std::byte* to, std::int64_t row_bytes) override {
        if (rect.rows == 0 || rect.cols == 0) return;
        const Session session;
        if (dense_.of_arrays) return read_arrays(rect, to, row_bytes);
        const std::array<hsize_t, 2> extents = {static_cast<hsize_t>(rect.rows),
                                                static_cast<hsize_t>(row_bytes / element_bytes_)};
        const Handle memory =
            take(H5Screate_simple(2, extents.data(), nullptr), ErrorCode::input, source_.name);
        select(memory.id(), {.extents = {0, 0}, .origin = {0, 0}, .row = 0, .col = 1},
               {0, 0, rect.rows, rect.cols}, source_.name);
        const Handle file = take(H5Dget_space(dense_.dataset.id()), ErrorCode::input, source_.name);
        select(file.id(), dense_.window, rect, source_.name);
        require(H5Dread(dense_.dataset.id(), source_.element.memory.id(), memory.id(), file.id(), H5P_DEFAULT,
                        to),
                ErrorCode::input, source_.name + ": cannot be read");
    }

  private:
    /// HDF5 reads whole arrays, some rows of the matrix at a time.
    void read_arrays(const Block& rect, std::byte* to, std::int64_t row_bytes) const {
        const auto width = static_cast<hsize_t>(source_.stored.cols);
        const Handle type =
            take(H5Tarray_create2(source_.element.memory.id(), 1, &width), ErrorCode::input, source_.name);
        const std::int64_t stored_bytes = source_.stored.cols * element_bytes_;
        const std::int64_t most = std::clamp<std::int64_t>(
            static_cast<std::int64_t>(kConversionBytes) / stored_bytes, 1, rect.rows);
        std::vector<std::byte> rows(static_cast<std::size_t>(most * stored_bytes));
        const Handle file = take(H5Dget_space(dense_.dataset.id()), ErrorCode::input, source_.name);
        for (std::int64_t row = 0; row < rect.rows; row += most) {
            const std::int64_t count = std::min(most, rect.rows - row);
            const auto arrays = static_cast<hsize_t>(count);
            const Handle memory = take(H5Screate_simple(1, &arrays, nullptr), ErrorCode::input, source_.name);
            select(file.id(), dense_.window, {rect.row + row, 0, count, 1}, source_.name);
            require(H5Dread(dense_.dataset.id(), type.id(), memory.id(), file.id(), H5P_DEFAULT, rows.data()),
                    ErrorCode::input, source_.name + ": cannot be read");
            for (std::int64_t i = 0; i < count; ++i)
                std::memcpy(to + (row + i) * row_bytes,
                            rows.data() + i * stored_bytes + rect.col * element_bytes_,
                            static_cast<std::size_t>(rect.cols * element_bytes_));
        }
    }

    const Source& source_;
    const Dense& dense_;
    std::int64_t element_bytes_;
};

/// What H5Dread reads, tile after tile in a child: a filter can crash, loop or inflate without end, so can
/// the conversion of a damaged type, and nothing has tried the pieces of a virtual dataset.
class ChildStorage final : public Storage {
  public:
    /// `grain`: the chunk of the dataset or the largest of its pieces, of which tiles are multiples.
    ChildStorage(const Source& source, const Dense& dense, const Shape& grain, std::uint64_t chunk_bytes,
                 PieceNeeds pieces, const ReadOptions& options)
        : source_(source),
          library_(source, dense),
          grain_(grain),
          pieces_(std::move(pieces)),
          element_bytes_(static_cast<std::int64_t>(source.element.memory_bytes)),
          memory_bytes_(kConversionBytes + kChunkCopies * chunk_bytes) {
        const std::uint64_t least = open_bytes() + working_bytes();
        const std::uint64_t all = options.memory_limit ? *options.memory_limit : available_memory_bytes();
        spare_ = all - std::min(all, least);
    }

    [[nodiscard]] std::uint64_t open_bytes() const override { return pieces_.open_bytes; }
    [[nodiscard]] std::string open_words() const override { return pieces_.words; }
    [[nodiscard]] std::uint64_t working_bytes() const override {
        return memory_bytes_ +
               static_cast<std::uint64_t>(std::min(grain_.rows, source_.stored.rows) *
                                          std::min(grain_.cols, source_.stored.cols) * element_bytes_);
    }
    void set_spare(std::uint64_t bytes) override { spare_ = bytes; }

    void read(const Block& rect, std::byte* to, std::int64_t row_bytes) override {
        if (rect.rows == 0 || rect.cols == 0) return;
        const Session session;
        const Shape step = tile_of(rect.cols);
        SharedMemory shared(static_cast<std::size_t>(std::min(step.rows, rect.rows) *
                                                     std::min(step.cols, rect.cols) * element_bytes_));
        for (std::int64_t row = rect.row; row < rect.row + rect.rows;) {
            const std::int64_t rows = until_edge(row, step.rows, rect.row + rect.rows);
            for (std::int64_t col = rect.col; col < rect.col + rect.cols;) {
                const std::int64_t cols = until_edge(col, step.cols, rect.col + rect.cols);
                read_tile({row, col, rows, cols}, shared,
                          to + (row - rect.row) * row_bytes + (col - rect.col) * element_bytes_, row_bytes);
                col += cols;
            }
            row += rows;
        }
    }

  private:
    /// Whole chunks, at least one, as many as there is room for of a matrix of `cols` columns. HDF5 keeps
    /// them decoded beside the tile.
    [[nodiscard]] Shape tile_of(std::int64_t cols) const {
        const auto most = std::max<std::int64_t>(
            1, static_cast<std::int64_t>(std::min(spare_ / 2, kTileBytes)) / element_bytes_);
        const std::int64_t width = round_down(most / std::min(grain_.rows, most), grain_.cols);
        return {round_down(most / std::min({width, cols, most}), grain_.rows), width};
    }

    /// How far it is from `position` to the next multiple of `step`, or to `end`.
    static std::int64_t until_edge(std::int64_t position, std::int64_t step, std::int64_t end) {
        return std::min(step - position % step, end - position);
    }

    /// "FILE:/A: rows 1 to 64, columns 1 to 8"
    [[nodiscard]] std::string shown(const Block& tile) const {
        const auto range = [](std::int64_t first, std::int64_t count) {
            return std::to_string(first + 1) + " to " + std::to_string(first + count);
        };
        return source_.name + ": rows " + range(tile.row, tile.rows) + ", columns " +
               range(tile.col, tile.cols) + (source_.reversed ? " as stored" : "");
    }

    void read_tile(const Block& tile, SharedMemory& shared, std::byte* to, std::int64_t row_bytes) {
        const std::int64_t bytes = tile.cols * element_bytes_;
        try_in_child(
            source_.path, shown(tile), ErrorCode::input, [&] { library_.read(tile, shared.data(), bytes); },
            static_cast<std::uint64_t>(tile.rows * bytes) + memory_bytes_ + pieces_.open_bytes,
            pieces_.seconds);
        for (std::int64_t i = 0; i < tile.rows; ++i)
            std::memcpy(to + i * row_bytes, shared.data() + i * bytes, static_cast<std::size_t>(bytes));
    }

    const Source& source_;
    LibraryStorage library_;
    Shape grain_;
    PieceNeeds pieces_;
    std::int64_t element_bytes_;
    std::uint64_t memory_bytes_;  ///< that HDF5 takes for a tile, beside it
    std::uint64_t spare_ = 0;
};

/// Whether elements are read as they are stored, but for their byte order.
bool reads_bits(const Source& source) {
    return source.element.same_bits || source.element.wide.has_value();
}

/// Throws where HDF5 has no filter that the dataset needs, neither built in nor as a plugin.
void require_filters(const Source& source, const Dense& dense) {
    for (const Filter& filter : dense.filters) {
        if (H5Zfilter_avail(filter.id) > 0) continue;
        throw Error(ErrorCode::input, source.name + ": it is stored with " + filter.name +
                                          ", for which no HDF5 plugin is installed");
    }
}

/// Throws where HDF5 would leave elements as they are in memory: never written, and without a fill value.
void require_filled(const Source& source, const Dense& dense) {
    if (source.stored.rows == 0 || source.stored.cols == 0 || !fill_value(source, dense).empty()) return;
    if (dense.layout == H5D_CONTIGUOUS && H5Dget_storage_size(dense.dataset.id()) > 0) return;
    if (dense.layout == H5D_COMPACT) return;
    if (dense.layout == H5D_CHUNKED &&
        enough_chunks_are_there(dense.dataset.id(), dense.creation.id(), source.name))
        return;
    throw Error(ErrorCode::input,
                source.name + ": parts of it were never written, and the dataset defines no fill value");
}

}  // namespace

bool is_filled(hid_t creation, const std::string& what) {
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    require(H5Pfill_value_defined(creation, &defined), ErrorCode::input, what);
    H5D_fill_time_t time = H5D_FILL_TIME_NEVER;
    require(H5Pget_fill_time(creation, &time), ErrorCode::input, what);
    unsigned stored = 0;  // a damaged file has other numbers than those of the enumeration
    static_assert(sizeof stored == sizeof time);
    std::memcpy(&stored, &time, sizeof stored);
    if (stored >
        static_cast<unsigned>(H5D_FILL_TIME_IFSET)) {  // HDF5 would leave some elements as they are in memory
        throw Error(ErrorCode::input, what + ": it is damaged: the time at which it is filled is " +
                                          std::to_string(stored) + ", expected 0, 1 or 2");
    }
    return defined != H5D_FILL_VALUE_UNDEFINED && stored != static_cast<unsigned>(H5D_FILL_TIME_NEVER);
}

std::vector<std::byte> fill_value(const Source& source, const Dense& dense) {
    const hid_t creation = dense.creation.id();
    if (!is_filled(creation, source.name)) return {};
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    require(H5Pfill_value_defined(creation, &defined), ErrorCode::input, source.name);
    std::vector<std::byte> value(source.element.memory_bytes);
    if (defined == H5D_FILL_VALUE_USER_DEFINED && !dense.of_arrays) {  // those, HDF5 fills itself
        require(H5Pget_fill_value(creation, source.element.memory.id(), value.data()), ErrorCode::input,
                source.name + ": its fill value cannot be read");
    }
    return value;
}

void require_whole(hid_t dataset, hid_t creation, const std::string& what) {
    const H5D_layout_t layout = H5Pget_layout(creation);
    const haddr_t address = layout == H5D_CONTIGUOUS ? H5Dget_offset(dataset) : HADDR_UNDEF;
    if (layout != H5D_COMPACT && address == HADDR_UNDEF) return;
    const Handle space = take(H5Dget_space(dataset), ErrorCode::input, what);
    const Handle type = take(H5Dget_type(dataset), ErrorCode::input, what);
    const hssize_t elements = H5Sget_simple_extent_npoints(space.id());
    const hsize_t stored = H5Dget_storage_size(dataset);
    hsize_t needed = 0;
    if (elements < 0 ||
        __builtin_mul_overflow(static_cast<hsize_t>(elements), H5Tget_size(type.id()), &needed) ||
        stored < needed) {
        throw Error(ErrorCode::input, what + ": it is damaged: its data take " + std::to_string(stored) +
                                          " bytes in the file, which are fewer than its elements need");
    }
    if (address == HADDR_UNDEF) return;
    const Handle file = take(H5Iget_file_id(dataset), ErrorCode::input, what);
    haddr_t end = 0;
    require(H5Fget_eoa(file.id(), &end), ErrorCode::input, what);
    if (address > end || needed > end - address) {
        throw Error(ErrorCode::input, what + ": it is damaged: its data, " + std::to_string(needed) +
                                          " bytes, pass the end that the file says it has, byte " +
                                          std::to_string(end));
    }
}

hsize_t written_chunks(hid_t dataset, const std::string& what) {
    const Handle space = take(H5Dget_space(dataset), ErrorCode::input, what);
    hsize_t count = 0;
    require(H5Dget_num_chunks(dataset, space.id(), &count), ErrorCode::input, what);
    return count;
}

bool enough_chunks_are_there(hid_t dataset, hid_t creation, const std::string& what) {
    const Handle space = take(H5Dget_space(dataset), ErrorCode::input, what);
    std::array<hsize_t, H5S_MAX_RANK> extents{};
    std::array<hsize_t, H5S_MAX_RANK> edges{};
    const int rank = H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
    if (rank < 1 || H5Pget_chunk(creation, rank, edges.data()) != rank) fail(ErrorCode::input, what);
    hsize_t needed = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
        const hsize_t along = extents[i] / edges[i] + (extents[i] % edges[i] != 0);
        if (__builtin_mul_overflow(needed, along, &needed)) return false;  // more than a file has bytes
    }
    return written_chunks(dataset, what) >= needed;  // there may be others outside of the extents
}

namespace {

/// Whatever the fast storages leave. In a child where filters run, numbers are converted or other files are
/// read.
std::unique_ptr<Storage> open_library_storage(const Source& source, const Dense& dense, PieceNeeds pieces,
                                              const ReadOptions& options) {
    require_filters(source, dense);
    require_whole(dense.dataset.id(), dense.creation.id(), source.name);
    require_filled(source, dense);
    if (dense.layout != H5D_CHUNKED && dense.layout != H5D_VIRTUAL && reads_bits(source))
        return std::make_unique<LibraryStorage>(source, dense);
    const bool chunked = dense.layout == H5D_CHUNKED;
    const Shape grain = chunked ? dense.chunk : pieces.largest;
    const std::uint64_t chunk_bytes =
        chunked ? static_cast<std::uint64_t>(elements_in_chunk(dense)) *
                      std::max(source.element.stored_bytes, source.element.memory_bytes)
                : pieces.chunk_bytes;
    return std::make_unique<ChildStorage>(source, dense, grain, chunk_bytes, std::move(pieces), options);
}

}  // namespace

std::unique_ptr<Storage> open_storage(const Source& source, const Dense& dense, const ReadOptions& options) {
    PieceNeeds pieces = require_external_pieces(source, dense, options);
    const bool external = H5Pget_external_count(dense.creation.id()) > 0;
    std::unique_ptr<Storage> storage;
    if (reads_bits(source) && dense.layout == H5D_CONTIGUOUS && !external)
        storage = open_contiguous_storage(source, dense, options);
    if (reads_bits(source) && dense.layout == H5D_CHUNKED && !dense.of_arrays)
        storage = open_chunked_storage(source, dense, options);
    return storage ? std::move(storage) : open_library_storage(source, dense, std::move(pieces), options);
}

}  // namespace gpumat::formats::hdf5
