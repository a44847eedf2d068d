#include "formats/hdf5/sparse.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "formats/hdf5/chunk_check.hpp"
#include "formats/hdf5/external.hpp"
#include "formats/hdf5/probe.hpp"
#include "formats/hdf5/shared_memory.hpp"
#include "lib/core/memory.hpp"

namespace gpumat::formats::hdf5 {
namespace {

using Integers = std::span<const std::int64_t>;

/// Reads the integers of a one-dimensional dataset.
void read_integers(hid_t dataset, SharedMemory& to, const std::string& what) {
    const Handle type = take(H5Dget_type(dataset), ErrorCode::input, what);
    if (H5Tget_class(type.id()) != H5T_INTEGER) throw Error(ErrorCode::input, what + ": expected integers");
    require(H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, to.data()), ErrorCode::input,
            what);
}

Integers integers_in(const SharedMemory& memory) {
    return {reinterpret_cast<const std::int64_t*>(memory.data()), memory.size() / sizeof(std::int64_t)};
}

/// The memory for a matrix of so many entries and columns. Throws where it passes the limit.
std::uint64_t required_bytes(const Source& source, const ReadOptions& options) {
    const auto entries = static_cast<std::uint64_t>(source.entries);
    const auto columns = static_cast<std::uint64_t>(source.stored.cols);
    const unsigned __int128 bytes =
        static_cast<unsigned __int128>(entries) * (sizeof(std::int64_t) + source.element.memory_bytes) +
        static_cast<unsigned __int128>(columns + 1) * sizeof(std::int64_t);
    const std::string what = source.name + ": a sparse matrix of " + std::to_string(entries) + " entries";
    if (bytes >> 63 != 0) throw Error(ErrorCode::memory, what + " is larger than any address space");
    require_memory(static_cast<std::uint64_t>(bytes), options.memory_limit, what);
    return static_cast<std::uint64_t>(bytes);
}

class SparseStorage : public Storage {
  public:
    SparseStorage(const Source& source, const Sparse& sparse, const ReadOptions& options)
        : source_(source),
          bytes_(required_bytes(source, options)),
          limited_(options.memory_limit.has_value()),
          start_memory_((static_cast<std::size_t>(source.stored.cols) + 1) * sizeof(std::int64_t)),
          row_memory_(static_cast<std::size_t>(source.entries) * sizeof(std::int64_t)),
          values_(static_cast<std::size_t>(source.entries) * source.element.memory_bytes),
          starts_(integers_in(start_memory_)),
          rows_(integers_in(row_memory_)) {
        try_in_child(
            source.path, source.name, ErrorCode::input, [&] { read_parts(sparse, options); }, bytes_);
        check();
    }

    void read(const Block& rect, std::byte* to, std::int64_t row_bytes) override {
        const std::size_t element = source_.element.memory_bytes;
        for (std::int64_t i = 0; i < rect.rows; ++i)
            std::memset(to + i * row_bytes, 0, static_cast<std::size_t>(rect.cols) * element);
        for (std::int64_t col = 0; col < rect.cols; ++col) {
            const auto begin = starts_[static_cast<std::size_t>(rect.col + col)];
            const auto end = starts_[static_cast<std::size_t>(rect.col + col) + 1];
            const auto first = std::lower_bound(rows_.begin() + begin, rows_.begin() + end, rect.row);
            for (auto row = first; row != rows_.begin() + end && *row < rect.row + rect.rows; ++row) {
                const auto entry = static_cast<std::size_t>(row - rows_.begin());
                std::memcpy(to + (*row - rect.row) * row_bytes + col * static_cast<std::int64_t>(element),
                            values_.data() + entry * element, element);
            }
        }
    }

    /// Without a limit the memory that is free has lost it already.
    [[nodiscard]] std::uint64_t open_bytes() const override { return limited_ ? bytes_ : 0; }

  private:
    /// In a child: filters may run.
    void read_parts(const Sparse& sparse, const ReadOptions& options) {
        require_sound(sparse.starts, options);
        read_integers(sparse.starts.id(), start_memory_, source_.name);
        if (!sparse.values) return;
        require_sound(sparse.rows, options);
        require_sound(*sparse.values, options);
        read_integers(sparse.rows.id(), row_memory_, source_.name);
        require(H5Dread(sparse.values->id(), source_.element.memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                        values_.data()),
                ErrorCode::input, source_.name + ": cannot be read");
    }

    /// All of the part is there and undamaged. Throws Error{memory} where one of its chunks and the matrix
    /// pass the limit.
    void require_sound(const Handle& part, const ReadOptions& options) const {
        require_stored(part.id(), source_.name);
        ChunkCheck check(part.id(), source_.name);
        require_memory(bytes_ + check.memory_bytes(), options.memory_limit,
                       source_.name + ": reading a chunk of a part of the sparse matrix");
        const Handle all = take(H5Dget_space(part.id()), ErrorCode::input, source_.name);
        check.check(all.id());
    }

    [[noreturn]] void malformed(const std::string& why) const {
        throw Error(ErrorCode::input, source_.name + ": a malformed sparse matrix: " + why);
    }

    /// Starts ascend from 0 to the number of entries; rows ascend within each column.
    void check() const {
        if (starts_.front() != 0 || starts_.back() != static_cast<std::int64_t>(rows_.size()))
            malformed("its column starts run from " + std::to_string(starts_.front()) + " to " +
                      std::to_string(starts_.back()) + ", expected 0 to " + std::to_string(rows_.size()));
        if (!std::ranges::is_sorted(starts_)) malformed("its column starts do not ascend");
        for (std::size_t col = 0; col + 1 < starts_.size(); ++col) {
            for (auto entry = starts_[col]; entry < starts_[col + 1]; ++entry) {
                const std::int64_t row = rows_[static_cast<std::size_t>(entry)];
                const bool ascends =
                    entry == starts_[col] || rows_[static_cast<std::size_t>(entry) - 1] < row;
                if (row >= 0 && row < source_.stored.rows && ascends) continue;
                malformed("column " + std::to_string(col + 1) + " has an entry in row " +
                          std::to_string(row + 1) +
                          (ascends ? ", of " + std::to_string(source_.stored.rows) : ", out of order"));
            }
        }
    }

    const Source& source_;
    std::uint64_t bytes_;  ///< of what follows
    bool limited_;
    SharedMemory start_memory_;
    SharedMemory row_memory_;
    SharedMemory values_;
    Integers starts_;
    Integers rows_;
};

}  // namespace

std::unique_ptr<Storage> open_sparse_storage(const Source& source, const Sparse& sparse,
                                             const ReadOptions& options) {
    return std::make_unique<SparseStorage>(source, sparse, options);
}

}  // namespace gpumat::formats::hdf5
