#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/numbers/shape.hpp"
#include "core/sparse/csr.hpp"
#include "core/spool.hpp"
#include "formats/format.hpp"

namespace gpumat {

/// Rows or columns that follow each other.
struct LineRange {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

/// The lines of the transpose that are those of a matrix.
inline formats::Lines lines_across(formats::Lines by) {
    return by == formats::Lines::rows ? formats::Lines::columns : formats::Lines::rows;
}

/// The one of these that takes the most; there is one.
LineRange largest_of(const std::vector<LineRange>& ranges,
                     const std::function<std::uint64_t(const LineRange&)>& bytes);

/// So many lines in as few ranges of whole steps as there can be that take no more than `room` bytes each, of
/// what `bytes` says of one. Throws Error{memory} with `words` of the largest that cannot be cut, where one
/// takes more.
std::vector<LineRange> cut_lines(std::int64_t lines, std::int64_t step, std::uint64_t room,
                                 const std::function<std::uint64_t(const LineRange&)>& bytes,
                                 const std::function<std::string(const LineRange&)>& words);

/// The same in ranges of about `wanted` bytes, or of one step where that takes more.
std::vector<LineRange> cut_evenly(std::int64_t lines, std::int64_t step, std::uint64_t wanted,
                                  const std::function<std::uint64_t(const LineRange&)>& bytes);

/// Entries in so many chunks of the file, of which those at the ends of a range are decoded twice, that they
/// are few; 0 where there are none.
std::int64_t entries_in_chunks(const formats::Reader& reader);

/// What a range frees is for the next one: the system would have to clear it again. Blocks of up to 32 MiB.
void keep_freed_memory();

/// "NAME: 5 entries of 4x5 elements need 2 MiB at once, and there are 1 MiB for them; 1 MiB more would do".
std::string words_of_range(const std::string& name, const Shape& shape, std::int64_t entries,
                           std::uint64_t needed, std::uint64_t room);

/// A stored sparse matrix by ranges of its rows or columns. They are read from its file where their entries
/// lie together there. Else one reading of the matrix brings all entries into a temporary file without a
/// name, range by range.
class SparseRanges {
  public:
    /// Reads what there is to count, or all entries, within `room` bytes beside what that takes. Throws as
    /// the reader does, and Error{output} where the file cannot be written. The reader must stay.
    SparseRanges(formats::Reader& reader, formats::Lines by, std::uint64_t room);

    /// Whether that takes a temporary file.
    static bool through_disk(const formats::Reader& reader, formats::Lines by) {
        return reader.lines() != by;
    }
    /// The least that `room` may be.
    static std::uint64_t least_room(const formats::Reader& reader, formats::Lines by);

    /// Ranges are whole multiples of so many lines, a power of 2; but for the last one.
    [[nodiscard]] std::int64_t step() const { return std::int64_t{1} << step_bits_; }
    [[nodiscard]] std::int64_t lines() const { return lines_; }
    [[nodiscard]] Block block(const LineRange& range) const;
    /// Before those for the same element are added.
    [[nodiscard]] std::int64_t entries_in(const LineRange& range) const;

    /// The block of a range, by sorted rows, as `Reader::read_sparse` gives the whole. Throws Error{memory}
    /// where entries in a temporary file for one element would have to be added in a wider type. For several
    /// threads at once.
    [[nodiscard]] Csr read(const LineRange& range, int threads, std::int64_t& duplicates) const;

  private:
    /// Entries that lie together in the file.
    struct Piece {
        std::uint64_t offset;
        std::int64_t entries;
    };

    void count_in_file();
    void bring_to_disk(std::uint64_t room);
    [[nodiscard]] std::size_t step_of(std::int64_t line) const {
        return static_cast<std::size_t>(line >> step_bits_);
    }
    /// Gives all entries of some steps in the temporary file, in the order in which they came to each.
    template <class T, class I, class Take>
    void for_each_kept(std::size_t first_step, std::size_t end_step, const Take& take) const;
    [[nodiscard]] Csr rows_from_disk(const LineRange& range, int threads) const;
    [[nodiscard]] Csr read_from_disk(const LineRange& range, int threads, std::int64_t& duplicates) const;

    formats::Reader& reader_;
    std::string name_;
    Shape shape_;
    Type type_;
    formats::Lines by_;
    std::int64_t lines_;
    int step_bits_ = 0;
    std::vector<std::int64_t> before_ = {0};  ///< entries before each step, and all
    std::optional<Spool> file_;
    std::vector<std::vector<Piece>> pieces_;  ///< in the file, of each step
};

}  // namespace gpumat
