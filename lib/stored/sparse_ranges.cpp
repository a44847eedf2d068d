#include "lib/stored/sparse_ranges.hpp"

#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "core/sparse/coo.hpp"
#include "core/sparse/row_sorter.hpp"
#include "lib/stored/spool_io.hpp"

namespace gpumat {
namespace {

/// Ranges in which entries are kept apart at most, and the room for those of one that are yet to be written.
constexpr std::int64_t kMostApart = 1024;
constexpr std::uint64_t kLeastPending = 4096;
constexpr std::uint64_t kMostPending = std::uint64_t{256} << 10;
/// Ranges of a file whose lines lie together, of which only the entries are counted.
constexpr std::int64_t kMostCounted = 1 << 16;
constexpr int kMappedBytes = 1 << 20;
constexpr std::int64_t kChunksOfRange = 8;

/// Such that there are at most so many steps, a power of 2.
int bits_of_steps(std::int64_t lines, std::int64_t most) {
    return std::bit_width(static_cast<std::uint64_t>(ceil_div(std::max<std::int64_t>(1, lines), most) - 1));
}

/// An entry in the file, whose indices are no longer than those of the matrix.
template <class T, class I>
struct KeptEntry {
    I row;
    I col;
    T value;
};

}  // namespace

LineRange largest_of(const std::vector<LineRange>& ranges,
                     const std::function<std::uint64_t(const LineRange&)>& bytes) {
    return *std::ranges::max_element(ranges, {}, bytes);
}

std::vector<LineRange> cut_lines(std::int64_t lines, std::int64_t step, std::uint64_t room,
                                 const std::function<std::uint64_t(const LineRange&)>& bytes,
                                 const std::function<std::string(const LineRange&)>& words) {
    std::vector<LineRange> ranges;
    for (std::int64_t first = 0; first < lines;) {
        const std::int64_t most = ceil_div(lines - first, step);
        const auto range_of = [&](std::int64_t steps) {
            return LineRange{first, std::min(lines - first, steps * step)};
        };
        if (bytes(range_of(1)) > room)
            throw Error(ErrorCode::memory, words(largest_of(cut_evenly(lines, step, 0, bytes), bytes)));
        std::int64_t fits = 1;
        for (std::int64_t beyond = most + 1; beyond - fits > 1;) {
            const std::int64_t middle = fits + (beyond - fits) / 2;
            (bytes(range_of(middle)) <= room ? fits : beyond) = middle;
        }
        ranges.push_back(range_of(fits));
        first += ranges.back().count;
    }
    return ranges;
}

std::vector<LineRange> cut_evenly(std::int64_t lines, std::int64_t step, std::uint64_t wanted,
                                  const std::function<std::uint64_t(const LineRange&)>& bytes) {
    std::vector<LineRange> ranges;
    LineRange range;
    for (std::int64_t line = 0; line < lines; line += step) {
        const std::int64_t end = std::min(lines, line + step);
        const LineRange longer{range.first, end - range.first};
        if (range.count > 0 && bytes(longer) > wanted) {
            ranges.push_back(range);
            range = {line, end - line};
        } else {
            range = longer;
        }
    }
    if (range.count > 0) ranges.push_back(range);
    return ranges;
}

std::int64_t entries_in_chunks(const formats::Reader& reader) {
    constexpr std::int64_t kMostInChunk = std::int64_t{1} << 24;
    const auto& chunking = reader.header().chunking;
    if (!chunking) return 0;
    return kChunksOfRange * std::min(kMostInChunk, chunking->chunk.first * chunking->chunk.second);
}

void keep_freed_memory() {
    constexpr int kMost = 32 << 20;  // that the C library takes
    mallopt(M_MMAP_THRESHOLD, kMost);
    mallopt(M_TRIM_THRESHOLD, 2 * kMost);
}

std::string words_of_range(const std::string& name, const Shape& shape, std::int64_t entries,
                           std::uint64_t needed, std::uint64_t room) {
    return name + ": " + std::to_string(entries) + " entries of " + to_string(shape) + " elements need " +
           format_need(needed) + " at once, and there are " + format_bytes(room) + " for them; " +
           format_need(needed - std::min(needed, room)) + " more would do";
}

std::uint64_t SparseRanges::least_room(const formats::Reader& reader, formats::Lines by) {
    return through_disk(reader, by) ? static_cast<std::uint64_t>(kMostApart) * kLeastPending
                                    : static_cast<std::uint64_t>(kMostCounted) * 2 * sizeof(std::int64_t);
}

SparseRanges::SparseRanges(formats::Reader& reader, formats::Lines by, std::uint64_t room)
    : reader_(reader),
      name_(to_string(reader.header().source)),
      shape_(reader.header().shape),
      type_(reader.header().type),
      by_(by),
      lines_(by == formats::Lines::rows ? shape_.rows : shape_.cols) {
    // What a part frees goes back to the system: else the C library keeps blocks as large as those that it
    // has seen freed, beside the next part.
    mallopt(M_MMAP_THRESHOLD, kMappedBytes);
    const bool through = through_disk(reader, by);
    step_bits_ = bits_of_steps(lines_, through ? kMostApart : kMostCounted);
    through ? bring_to_disk(room) : count_in_file();
}

void SparseRanges::count_in_file() {
    for (const std::int64_t entries : reader_.count_entries(step()))
        before_.push_back(before_.back() + entries);
}

void SparseRanges::bring_to_disk(std::uint64_t room) {
    file_ = open_spool(1, 0, name_);  // on disk
    file_->bytes = 0;
    pieces_.resize(step_of(std::max<std::int64_t>(1, lines_) - 1) + 1);
    const std::uint64_t bytes = std::clamp(room / pieces_.size(), kLeastPending, kMostPending);
    visit_bytes(type_, [&]<class T>(TypeTag<T>) {
        visit_index(shape_, [&]<class I>(TypeTag<I>) {
            using Kept = KeptEntry<T, I>;
            const std::size_t most = bytes / sizeof(Kept);
            Buffer memory(pieces_.size() * most * sizeof(Kept));
            auto* const pending = reinterpret_cast<Kept*>(memory.data());
            std::vector<std::size_t> counts(pieces_.size());
            const auto write = [&](std::size_t number) {
                const std::size_t count = std::exchange(counts[number], 0);
                if (count == 0) return;
                const std::uint64_t offset =
                    append_to(*file_, pending + number * most, count * sizeof(Kept), name_);
                pieces_[number].push_back({offset, static_cast<std::int64_t>(count)});
            };
            const bool by_rows = by_ == formats::Lines::rows;
            reader_.read_entries([&](const Entries& entries) {
                for (const Entry<T>& entry : entries.as<T>()) {
                    const std::size_t number = step_of(by_rows ? entry.row : entry.col);
                    pending[number * most + counts[number]++] = {static_cast<I>(entry.row),
                                                                 static_cast<I>(entry.col), entry.value};
                    if (counts[number] == most) write(number);
                }
            });
            for (std::size_t number = 0; number < pieces_.size(); ++number) write(number);
        });
    });
    for (const std::vector<Piece>& pieces : pieces_) {
        before_.push_back(before_.back());
        for (const Piece& piece : pieces) before_.back() += piece.entries;
    }
}

Block SparseRanges::block(const LineRange& range) const {
    return by_ == formats::Lines::rows ? Block{range.first, 0, range.count, shape_.cols}
                                       : Block{0, range.first, shape_.rows, range.count};
}

std::int64_t SparseRanges::entries_in(const LineRange& range) const {
    if (range.count == 0) return 0;
    return before_[step_of(range.first + range.count - 1) + 1] - before_[step_of(range.first)];
}

Csr SparseRanges::read(const LineRange& range, int threads, std::int64_t& duplicates) const {
    return file_ ? read_from_disk(range, threads, duplicates) : reader_.read_lines(block(range), duplicates);
}

template <class T, class I, class Take>
void SparseRanges::for_each_kept(std::size_t first_step, std::size_t end_step, const Take& take) const {
    std::vector<KeptEntry<T, I>> kept;
    for (std::size_t step = first_step; step < end_step; ++step) {
        for (const Piece& piece : pieces_[step]) {
            kept.resize(static_cast<std::size_t>(piece.entries));
            read_from(*file_, piece.offset, kept.data(), kept.size() * sizeof(kept.front()), name_);
            for (const auto& entry : kept) take(entry);
        }
    }
}

Csr SparseRanges::rows_from_disk(const LineRange& range, int threads) const {
    const Block place = block(range);
    const std::size_t first = step_of(range.first);
    const std::size_t steps = range.count == 0 ? 0 : step_of(range.first + range.count - 1) + 1 - first;
    const auto shares =
        static_cast<std::int64_t>(std::min<std::size_t>(steps, static_cast<std::size_t>(threads)));
    const auto begin_of = [&](std::int64_t share) {
        return first + steps * static_cast<std::size_t>(share) / static_cast<std::size_t>(shares);
    };
    return visit_bytes(type_, [&]<class T>(TypeTag<T>) {
        return visit_index(shape_, [&]<class K>(TypeTag<K>) {
            return visit_index(place.shape(), [&]<class I>(TypeTag<I>) {
                RowSorter<I, T> sorter(place.shape(), type_, entries_in(range), shares, name_);
                parallel_for(shares, 1, threads, [&](std::int64_t share, std::int64_t) {
                    auto counter = sorter.counter(share);
                    for_each_kept<T, K>(begin_of(share), begin_of(share + 1), [&](const auto& entry) {
                        counter.add(static_cast<I>(entry.row - place.row));
                    });
                });
                sorter.find_places();
                parallel_for(shares, 1, threads, [&](std::int64_t share, std::int64_t) {
                    auto putter = sorter.putter(share);
                    for_each_kept<T, K>(begin_of(share), begin_of(share + 1), [&](const auto& entry) {
                        putter.put(static_cast<I>(entry.row - place.row),
                                   static_cast<I>(entry.col - place.col), entry.value);
                    });
                });
                return sorter.finish(threads);
            });
        });
    });
}

Csr SparseRanges::read_from_disk(const LineRange& range, int threads, std::int64_t& duplicates) const {
    Csr matrix = rows_from_disk(range, std::max(1, threads));
    Merged merged;
    duplicates = sort_columns(matrix.view(), threads);
    if (duplicates > 0) merge_duplicates(matrix, name_, merged);
    if (merged.unadded.empty()) return matrix;
    throw Error(ErrorCode::memory, name_ + ": found entries for the same element, of which those of " +
                                       std::string(name_of(type_)) +
                                       " are added where the matrix is in memory as a whole; -t f64 (or "
                                       "c128) adds them in parts");
}

}  // namespace gpumat
