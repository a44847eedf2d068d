#include "lib/matrices/statistics_by_ranges.hpp"

#include <algorithm>
#include <utility>

#include "core/hash/sparse_hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "core/sparse/coo.hpp"
#include "lib/stored/in_earnest.hpp"
#include "lib/stored/sparse_ranges.hpp"
#include "lib/stored/sparse_rows.hpp"

namespace gpumat {
namespace {

using formats::Lines;

constexpr std::uint64_t kLeastSummedRange = std::uint64_t{1} << 20;
/// What a range takes where there is room: more costs more to clear, less more of the hash.
constexpr std::uint64_t kSummedRangeBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMostSummedKept = 2 * kSummedRangeBytes;

/// What is known of the ranges.
constexpr std::uint64_t kSummedTables = std::uint64_t{1} << 20;

/// What is taken beside ranges of these lines: readers, tables, and the sums of the lines across.
std::uint64_t bytes_beside_sums(const formats::Reader& reader, Lines by) {
    const Shape& shape = reader.header().shape;
    const auto sums = static_cast<std::uint64_t>(by == Lines::rows ? shape.cols : shape.rows);
    return saturating_add(saturating_add(reader.entries_bytes(), kSummedTables),
                          saturating_multiply(sums, sizeof(double)));
}

/// The least room for ranges of these lines, and of those across where the matrix may be symmetric.
std::uint64_t least_room_for_sums(const formats::Reader& reader, Lines by) {
    const Shape& shape = reader.header().shape;
    const std::uint64_t room = std::max(kLeastSummedRange, SparseRanges::least_room(reader, by));
    return shape.rows == shape.cols ? std::max(room, SparseRanges::least_room(reader, lines_across(by)))
                                    : room;
}

std::uint64_t least_for_ranges_of(const formats::Reader& reader, Lines by) {
    return saturating_add(bytes_beside_sums(reader, by), least_room_for_sums(reader, by));
}

/// Those that lie together in the file, but where there are too many across.
Lines best_lines(const formats::Reader& reader, std::uint64_t limit) {
    const Lines natural = reader.lines().value_or(Lines::rows);
    const std::uint64_t least = least_for_ranges_of(reader, natural);
    return least <= limit || least <= least_for_ranges_of(reader, lines_across(natural))
               ? natural
               : lines_across(natural);
}

/// The square on the diagonal of a block of whole rows or columns.
Csr diagonal_of(Lines by, const Block& block, const CsrView& entries) {
    const bool by_rows = by == Lines::rows;
    const std::int64_t first = by_rows ? block.row : block.col;
    const std::int64_t count = by_rows ? block.rows : block.cols;
    return visit_index(entries.shape, [&]<class I>(TypeTag<I>) {
        const I* const columns = entries.columns_as<I>();
        const std::int64_t row = by_rows ? 0 : first;
        const std::int64_t col = by_rows ? first : 0;
        const auto range_of = [&](std::int64_t i) {
            const I* const begin = columns + entries.pointers[row + i];
            const I* const end = columns + entries.pointers[row + i + 1];
            const I* const from = std::lower_bound(begin, end, col);
            return std::pair{from, std::lower_bound(from, end, col + count)};
        };
        std::int64_t total = 0;
        for (std::int64_t i = 0; i < count; ++i) total += range_of(i).second - range_of(i).first;
        Csr square({count, count}, entries.type, total, "a block on the diagonal");
        const MutableCsrView to = square.view();
        const std::size_t size = size_of(entries.type);
        to.pointers[0] = 0;
        visit_index(to.shape, [&]<class J>(TypeTag<J>) {
            for (std::int64_t i = 0; i < count; ++i) {
                const auto [from, end] = range_of(i);
                std::int64_t at = to.pointers[i];
                std::copy_n(entries.values + static_cast<std::size_t>(from - columns) * size,
                            static_cast<std::size_t>(end - from) * size,
                            to.values + static_cast<std::size_t>(at) * size);
                for (const I* column = from; column < end; ++column)
                    to.columns_as<J>()[at++] = static_cast<J>(*column - col);
                to.pointers[i + 1] = at;
            }
        });
        return square;
    });
}

/// What is known of some ranges.
struct FoundInRanges {
    explicit FoundInRanges(const formats::Header& header)
        : statistics(BlockStatistics::of(header.shape, header.type, 1)), hash(header.shape, header.type) {}

    std::unique_ptr<BlockStatistics> statistics;
    SparseContentHash hash;
};

class RangedStatistics {
  public:
    RangedStatistics(formats::Reader& reader, const formats::ReadOptions& options, std::uint64_t limit)
        : reader_(reader),
          options_(options),
          header_(reader.header()),
          by_(best_lines(reader, limit)),
          beside_(bytes_beside_sums(reader, by_) - kSummedTables),
          room_(limit - std::min(limit, bytes_beside_sums(reader, by_))),
          found_(header_) {}

    [[nodiscard]] bool has_room() const { return room_ >= least_room_for_sums(reader_, by_); }

    /// Nothing where the matrix may be symmetric and `fits`: then that is found sooner in memory.
    std::optional<StoredStatistics> run(bool fits) {
        reader_.set_spare(0);
        const SparseRanges lines(reader_, by_, room_);
        const std::vector<LineRange> ranges = cut(lines);
        if (fits && !ranges.empty()) {
            FoundInRanges first(header_);
            take(lines, ranges.front(), first);
            if (first.statistics->may_be_symmetric()) return {};
        }
        take_all(lines, ranges);
        std::string text = "in " + std::to_string(ranges.size()) + " parts, ranges of " +
                           (by_ == Lines::rows ? "rows" : "columns");
        if (SparseRanges::through_disk(reader_, by_)) text += " from a temporary file";
        if (found_.statistics->may_be_symmetric()) {
            if (fits) return {};
            text += "; for symmetry by the other lines, from a temporary file";
            compare_across(lines);
        }
        reader_.require_unchanged();
        tell(options_.tell, Severity::detail, to_string(header_.source) + ": " + text);
        return StoredStatistics{found_.statistics->finish(), found_.hash.text()};
    }

  private:
    [[nodiscard]] std::uint64_t bytes(const SparseRanges& lines, const LineRange& range) const {
        return to_csr_bytes(lines.block(range).shape(), header_.type, lines.entries_in(range));
    }

    /// What a range takes, with its square on the diagonal and the transpose of that.
    [[nodiscard]] std::uint64_t needed(const SparseRanges& lines, const LineRange& range) const {
        return saturating_multiply(2, bytes(lines, range));
    }

    /// Ranges of which each thread has room for one, if there is room for so many.
    [[nodiscard]] std::vector<LineRange> cut(const SparseRanges& lines) const {
        const std::uint64_t chunks = saturating_multiply(
            2, to_csr_bytes({1, header_.shape.cols}, header_.type, entries_in_chunks(reader_)));
        const std::uint64_t share = (room_ + beside_) / static_cast<std::uint64_t>(options_.threads);
        const std::uint64_t wanted =
            std::min(std::max(kSummedRangeBytes, chunks), share - std::min(share, beside_));
        return cut_evenly(lines.lines(), lines.step(), wanted,
                          [&](const LineRange& range) { return needed(lines, range); });
    }

    /// Each thread takes ranges that follow each other, so that sums depend on their number alone.
    void take_all(const SparseRanges& lines, const std::vector<LineRange>& ranges) {
        std::uint64_t largest = 1;
        for (const LineRange& range : ranges) {
            largest = std::max(largest, needed(lines, range));
            if (largest > room_)
                throw Error(ErrorCode::memory,
                            words_of_range(to_string(header_.source), lines.block(range).shape(),
                                           lines.entries_in(range), largest, room_));
        }
        if (largest <= kMostSummedKept) keep_freed_memory();
        const auto threads = static_cast<std::int64_t>(std::min<std::uint64_t>(
            (room_ + beside_) / (largest + beside_), static_cast<std::uint64_t>(options_.threads)));
        std::vector<FoundInRanges> shares;
        for (std::int64_t share = 0; share < threads; ++share) shares.emplace_back(header_);
        const std::int64_t count = std::ssize(ranges);
        parallel_for(threads, 1, static_cast<int>(threads), [&](std::int64_t share, std::int64_t) {
            for (std::int64_t at = count * share / threads; at < count * (share + 1) / threads; ++at)
                take(lines, ranges[static_cast<std::size_t>(at)], shares[static_cast<std::size_t>(share)]);
        });
        for (const FoundInRanges& share : shares) {
            found_.statistics->merge(*share.statistics);
            found_.hash.merge(share.hash);
        }
    }

    void take(const SparseRanges& lines, const LineRange& range, FoundInRanges& found) const {
        std::int64_t duplicates = 0;
        const Block block = lines.block(range);
        const Csr entries = lines.read(range, 1, duplicates);
        found.hash.add(block.row, block.col, entries.view(), 1);
        found.statistics->take(block, entries.view());
        if (!found.statistics->may_be_symmetric()) return;
        const Csr square = diagonal_of(by_, block, entries.view());
        const Csr across = transposed(square.view(), 1);
        found.statistics->compare(square.view(), across.view());
    }

    /// Each range of lines beside that across the diagonal.
    void compare_across(const SparseRanges& lines) {
        const SparseRanges others(reader_, lines_across(by_), room_);
        const auto need = [&](const LineRange& range) {
            return saturating_add(bytes(lines, range), saturating_multiply(2, bytes(others, range)));
        };
        const auto words = [&](const LineRange& range) {
            return words_of_range(to_string(header_.source), lines.block(range).shape(),
                                  lines.entries_in(range), need(range), room_);
        };
        const std::int64_t step = std::max(lines.step(), others.step());
        for (const LineRange& range : cut_lines(lines.lines(), step, room_, need, words)) {
            if (!found_.statistics->may_be_symmetric()) return;
            std::int64_t duplicates = 0;
            const Csr here = lines.read(range, options_.threads, duplicates);
            const Csr lines_there = others.read(range, options_.threads, duplicates);
            const Csr there = transposed(lines_there.view(), options_.threads);
            found_.statistics->compare(here.view(), there.view());
        }
    }

    formats::Reader& reader_;
    const formats::ReadOptions& options_;
    const formats::Header& header_;
    Lines by_;
    std::uint64_t beside_;  ///< what each thread takes beside a range
    std::uint64_t room_;    ///< for ranges, of one thread
    FoundInRanges found_;
};

}  // namespace

std::optional<StoredStatistics> statistics_by_ranges(formats::Reader& reader,
                                                     const formats::ReadOptions& options, bool fits) {
    const formats::Header& header = reader.header();
    // Symmetry may take another reading.
    if (header.in_order && header.shape.rows == header.shape.cols) return {};
    if (!fits && !options.memory_limit &&
        !are_in_earnest(header.file_bytes, formats::sparse_reading_bytes(header)))
        return {};
    RangedStatistics statistics(reader, options, options.memory_limit.value_or(available_memory_bytes() / 2));
    if (!statistics.has_room()) return {};
    return statistics.run(fits);
}

std::uint64_t least_for_ranges(const formats::Reader& reader) {
    return std::min(least_for_ranges_of(reader, Lines::rows), least_for_ranges_of(reader, Lines::columns));
}

}  // namespace gpumat
