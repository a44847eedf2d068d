#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/numbers/shape.hpp"
#include "core/sparse/csr.hpp"
#include "core/spool.hpp"
#include "formats/format.hpp"

namespace gpumat {

/// The entries of a stored sparse matrix in a temporary file without a name, by ranges of rows or of columns:
/// what is larger than memory is read range by range from there, after one reading of the matrix in any
/// order.
class EntriesOnDisk {
  public:
    /// Rows or columns that follow each other, with all entries that they have.
    struct Range {
        Block block;
        std::int64_t entries = 0;  ///< before those for the same element are added
    };

    /// Reads the matrix, whose reader gives entries, within `room` bytes beside what that takes. Throws as
    /// the reader does, and Error{output} where the file cannot be written.
    EntriesOnDisk(formats::Reader& reader, bool by_columns, std::uint64_t room);

    /// The least that `room` may be.
    static std::uint64_t least_room();

    /// The matrix in as few ranges as there can be that take no more than `room` bytes each, of what `bytes`
    /// says of one. Throws Error{memory} for one that takes more and cannot be cut.
    [[nodiscard]] std::vector<Range> ranges(const std::function<std::uint64_t(const Range&)>& bytes,
                                            std::uint64_t room) const;

    /// The block of a range, by sorted rows, as `Reader::read_sparse` gives the whole. Throws Error{memory}
    /// where entries for one element would have to be added in a wider type.
    [[nodiscard]] Csr read(const Range& range, int threads, std::int64_t& duplicates) const;

  private:
    /// Entries that lie together in the file.
    struct Piece {
        std::uint64_t offset;
        std::int64_t entries;
    };
    struct Bucket {
        std::vector<Piece> pieces;
        std::int64_t entries = 0;
    };

    [[nodiscard]] std::size_t bucket_of(std::int64_t line) const {
        return static_cast<std::size_t>(line / lines_a_bucket_);
    }

    std::string name_;
    Shape shape_;
    Type type_;
    bool by_columns_;
    std::int64_t lines_a_bucket_ = 1;
    std::vector<Bucket> buckets_;
    Spool file_;
};

}  // namespace gpumat
