#include "formats/hdf5/read/sparse.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "formats/hdf5/read/dense_reader.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// The memory for a matrix of so many entries and columns. Throws where it passes the limit.
std::uint64_t required_bytes(const Source& source, Type type, const ReadOptions& options) {
    const auto entries = static_cast<std::uint64_t>(source.entries);
    const auto columns = static_cast<std::uint64_t>(source.stored.cols);
    const unsigned __int128 bytes =
        static_cast<unsigned __int128>(entries) * (sizeof(std::int64_t) + size_of(type)) +
        static_cast<unsigned __int128>(columns + 1) * sizeof(std::int64_t);
    const std::string what = source.name + ": a sparse matrix of " + std::to_string(entries) + " entries";
    if (bytes >> 63 != 0) throw Error(ErrorCode::memory, what + " is larger than any address space");
    require_memory(static_cast<std::uint64_t>(bytes), options.memory_limit, what);
    return static_cast<std::uint64_t>(bytes);
}

/// All numbers of a part, as `type`. `taken`: bytes that are taken beside it.
Buffer read_part(const Source& part, Type type, const ReadOptions& options, std::uint64_t taken) {
    DenseReader reader = [&] {
        const Session session;
        return DenseReader(part, options, type);
    }();
    require_memory(taken + reader.open_bytes() + reader.working_bytes(), options.memory_limit,
                   part.name + ": reading it (" + part.storage + ")");
    Buffer numbers(static_cast<std::size_t>(part.stored.elements()) * size_of(type));
    reader.read(Block::whole(part.stored), {type, part.stored, part.stored.cols, numbers.data()});
    return numbers;
}

std::span<const std::int64_t> integers_in(const Buffer& memory) {
    return {reinterpret_cast<const std::int64_t*>(memory.data()), memory.size() / sizeof(std::int64_t)};
}

}  // namespace

SparseMatrix::SparseMatrix(const Source& source, Type type, const ReadOptions& options)
    : source_(source),
      element_bytes_(static_cast<std::int64_t>(size_of(type))),
      bytes_(required_bytes(source, type, options)),
      limited_(options.memory_limit.has_value()) {
    const auto& sparse = std::get<Sparse>(source.where);
    start_memory_ = read_part(*sparse.starts, Type::i64, options, bytes_);
    if (sparse.values) {
        row_memory_ = read_part(*sparse.rows, Type::i64, options, bytes_);
        values_ = read_part(*sparse.values, type, options, bytes_);
    }
    starts_ = integers_in(start_memory_);
    rows_ = integers_in(row_memory_);
    check();
}

void SparseMatrix::read(const Block& rect, const MutableMatrixView& out) const {
    if (rect.rows == 0 || rect.cols == 0) return;  // `out` may point nowhere
    const auto element = static_cast<std::size_t>(element_bytes_);
    const auto place = [&](std::int64_t row, std::int64_t col) {
        return out.data + (row * out.ld + col) * element_bytes_;
    };
    for (std::int64_t i = 0; i < rect.rows; ++i)
        std::memset(place(i, 0), 0, static_cast<std::size_t>(rect.cols) * element);
    for (std::int64_t col = 0; col < rect.cols; ++col) {
        const auto begin = starts_[static_cast<std::size_t>(rect.col + col)];
        const auto end = starts_[static_cast<std::size_t>(rect.col + col) + 1];
        const auto first = std::lower_bound(rows_.begin() + begin, rows_.begin() + end, rect.row);
        for (auto row = first; row != rows_.begin() + end && *row < rect.row + rect.rows; ++row) {
            const auto entry = static_cast<std::size_t>(row - rows_.begin());
            std::memcpy(place(*row - rect.row, col), values_.data() + entry * element, element);
        }
    }
}

void SparseMatrix::malformed(const std::string& why) const {
    throw Error(ErrorCode::input, source_.name + ": a malformed sparse matrix: " + why);
}

/// Starts ascend from 0 to the number of entries; rows ascend within each column.
void SparseMatrix::check() const {
    if (starts_.front() != 0 || starts_.back() != static_cast<std::int64_t>(rows_.size()))
        malformed("its column starts run from " + std::to_string(starts_.front()) + " to " +
                  std::to_string(starts_.back()) + ", expected 0 to " + std::to_string(rows_.size()));
    if (!std::ranges::is_sorted(starts_)) malformed("its column starts do not ascend");
    for (std::size_t col = 0; col + 1 < starts_.size(); ++col) {
        for (auto entry = starts_[col]; entry < starts_[col + 1]; ++entry) {
            const std::int64_t row = rows_[static_cast<std::size_t>(entry)];
            const bool ascends = entry == starts_[col] || rows_[static_cast<std::size_t>(entry) - 1] < row;
            if (row >= 0 && row < source_.stored.rows && ascends) continue;
            malformed("column " + std::to_string(col + 1) + " has an entry in row " +
                      std::to_string(row + 1) +
                      (ascends ? ", of " + std::to_string(source_.stored.rows) : ", out of order"));
        }
    }
}

}  // namespace gpumat::formats::hdf5
