#include "lib/stored/entries_on_disk.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "lib/stored/spool_io.hpp"

namespace gpumat {
namespace {

/// Ranges in which entries are kept apart at most, and the room for those of one that are yet to be written.
constexpr std::int64_t kMostBuckets = 1024;
constexpr std::uint64_t kLeastPending = 4096;
constexpr std::uint64_t kMostPending = std::uint64_t{256} << 10;
constexpr int kMappedBytes = 1 << 20;

}  // namespace

std::uint64_t EntriesOnDisk::least_room() {
    return static_cast<std::uint64_t>(kMostBuckets) * kLeastPending;
}

EntriesOnDisk::EntriesOnDisk(formats::Reader& reader, bool by_columns, std::uint64_t room)
    : name_(to_string(reader.header().source)),
      shape_(reader.header().shape),
      type_(reader.header().type),
      by_columns_(by_columns),
      file_(open_spool(1, 0, name_)) {  // on disk
    file_.bytes = 0;
    // What a part frees goes back to the system: else the C library keeps blocks as large as those that it
    // has seen freed, beside the next part.
    mallopt(M_MMAP_THRESHOLD, kMappedBytes);
    const std::int64_t lines = std::max<std::int64_t>(1, by_columns ? shape_.cols : shape_.rows);
    lines_a_bucket_ = ceil_div(lines, std::min(lines, kMostBuckets));
    buckets_.resize(static_cast<std::size_t>(ceil_div(lines, lines_a_bucket_)));
    const std::uint64_t bytes = std::clamp(room / buckets_.size(), kLeastPending, kMostPending);
    visit_type(type_, [&]<class T>(TypeTag<T>) {
        const std::size_t most = bytes / sizeof(Entry<T>);
        Buffer memory(buckets_.size() * most * sizeof(Entry<T>));
        auto* const pending = reinterpret_cast<Entry<T>*>(memory.data());
        std::vector<std::size_t> counts(buckets_.size());
        const auto write = [&](std::size_t number) {
            const std::size_t count = std::exchange(counts[number], 0);
            if (count == 0) return;
            Bucket& bucket = buckets_[number];
            const std::uint64_t offset =
                append_to(file_, pending + number * most, count * sizeof(Entry<T>), name_);
            bucket.pieces.push_back({offset, static_cast<std::int64_t>(count)});
            bucket.entries += static_cast<std::int64_t>(count);
        };
        reader.read_entries([&](const Entries& entries) {
            for (const Entry<T>& entry : entries.as<T>()) {
                const std::size_t number = bucket_of(by_columns_ ? entry.col : entry.row);
                pending[number * most + counts[number]++] = entry;
                if (counts[number] == most) write(number);
            }
        });
        for (std::size_t number = 0; number < buckets_.size(); ++number) write(number);
    });
}

std::vector<EntriesOnDisk::Range> EntriesOnDisk::ranges(
    const std::function<std::uint64_t(const Range&)>& bytes, std::uint64_t room) const {
    const std::int64_t lines = by_columns_ ? shape_.cols : shape_.rows;
    const auto range_of = [&](std::size_t begin, std::size_t end) {
        const std::int64_t first = static_cast<std::int64_t>(begin) * lines_a_bucket_;
        const std::int64_t count = std::min(lines, static_cast<std::int64_t>(end) * lines_a_bucket_) - first;
        Range range{by_columns_ ? Block{0, first, shape_.rows, count} : Block{first, 0, count, shape_.cols}};
        for (std::size_t at = begin; at < end; ++at) range.entries += buckets_[at].entries;
        return range;
    };
    std::vector<Range> found;
    for (std::size_t begin = 0; begin < buckets_.size();) {
        std::size_t end = begin + 1;
        Range range = range_of(begin, end);
        if (bytes(range) > room)
            throw Error(ErrorCode::memory, name_ + ": " + std::to_string(range.entries) + " entries of " +
                                               to_string(range.block.shape()) + " elements need " +
                                               format_need(bytes(range)) + " at once, and there are " +
                                               format_bytes(room) + " for them");
        while (end < buckets_.size()) {
            Range larger = range_of(begin, end + 1);
            if (bytes(larger) > room) break;
            range = larger;
            ++end;
        }
        found.push_back(range);
        begin = end;
    }
    return found;
}

Csr EntriesOnDisk::read(const Range& range, int threads, std::int64_t& duplicates) const {
    const Block& block = range.block;
    Coo entries(block.shape(), type_, range.entries, name_);
    const std::int64_t first = by_columns_ ? block.col : block.row;
    const std::int64_t count = by_columns_ ? block.cols : block.rows;
    visit_type(type_, [&]<class T>(TypeTag<T>) {
        std::vector<Entry<T>> some;
        for (std::size_t at = bucket_of(first); count > 0 && at <= bucket_of(first + count - 1); ++at) {
            for (const Piece& piece : buckets_[at].pieces) {
                some.resize(static_cast<std::size_t>(piece.entries));
                read_from(file_, piece.offset, some.data(), some.size() * sizeof(Entry<T>), name_);
                for (Entry<T>& entry : some) {
                    entry.row -= block.row;
                    entry.col -= block.col;
                }
                entries.add({type_, piece.entries, some.data()});
            }
        }
    });
    Merged merged;
    Csr matrix = to_csr(std::move(entries), threads, name_, merged);
    duplicates = merged.duplicates;
    if (merged.unadded.empty()) return matrix;
    throw Error(ErrorCode::memory, name_ + ": found entries for the same element, of which those of " +
                                       std::string(name_of(type_)) +
                                       " are added where the matrix is in memory as a whole; -t f64 (or "
                                       "c128) adds them in parts");
}

}  // namespace gpumat
