#include "lib/matrices/compare_ranges.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "core/sparse/coo.hpp"
#include "lib/matrices/compare_sparse.hpp"
#include "lib/stored/in_earnest.hpp"
#include "lib/stored/read_in_blocks.hpp"
#include "lib/stored/sparse_ranges.hpp"
#include "lib/stored/sparse_rows.hpp"

namespace gpumat {
namespace {

using formats::Lines;

/// What a thread takes for a range, where there is room: what it reads of both is still in its cache then.
constexpr std::uint64_t kComparedRangeBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kLeastComparedBytes = kComparedRangeBytes / 4;
/// What is known of the ranges of both.
constexpr std::uint64_t kComparedTables = std::uint64_t{1} << 20;
/// Of a range that is freed, within a limit.
constexpr std::uint64_t kMostComparedKept = std::uint64_t{8} << 20;

/// The lines of Y that are those of X.
Lines of_y(Lines by, bool transposed) {
    return transposed ? lines_across(by) : by;
}

/// The ranges by which the fewest entries go through the disk.
Lines best_lines(const formats::Reader& x, const formats::Reader& y, bool transposed) {
    const auto through_disk = [&](Lines by) {
        return int{SparseRanges::through_disk(x, by)} +
               int{SparseRanges::through_disk(y, of_y(by, transposed))};
    };
    return through_disk(Lines::columns) < through_disk(Lines::rows) ? Lines::columns : Lines::rows;
}

/// What is found in pieces that end in any order, merged in theirs: so the sums have the same digits always.
class FindingsInOrder {
  public:
    explicit FindingsInOrder(std::size_t most_listed) : most_listed_(most_listed) {}

    void take(std::int64_t piece, ElementFindings findings) {
        const std::lock_guard lock(mutex_);
        waiting_.emplace(piece, std::move(findings));
        for (auto first = waiting_.begin(); first != waiting_.end() && first->first == merged_; ++merged_) {
            found_.merge(first->second, most_listed_);
            first = waiting_.erase(first);
        }
    }

    ElementFindings found() && { return std::move(found_); }

  private:
    std::size_t most_listed_;
    std::mutex mutex_;
    std::map<std::int64_t, ElementFindings> waiting_;
    std::int64_t merged_ = 0;
    ElementFindings found_;
};

/// Whether dense blocks of both come for less than all of their entries each.
bool serve_in_blocks(const formats::Header& x, const formats::Header& y, std::uint64_t limit) {
    const std::uint64_t bytes = block_bytes(x.shape, size_of(x.type) + size_of(y.type));
    return !x.sparse_layout && !y.sparse_layout && !rereads_often(x, bytes, limit) &&
           !rereads_often(y, bytes, limit);
}

class RangeComparison {
  public:
    RangeComparison(formats::Reader& x, formats::Reader& y, const CompareOptions& options)
        : x_(x), y_(y), options_(options), by_(best_lines(x, y, options.transposed)) {
        one_thread_.threads = 1;
        all_ = options.memory_limit.value_or(available_memory_bytes() / 2);
        readers_ = saturating_add(saturating_add(x.entries_bytes(), y.entries_bytes()),
                                  bytes_of_collected(x.header().type, y.header().type));
    }

    /// For the readers, and for what a range takes at least.
    [[nodiscard]] std::uint64_t least_bytes() const {
        const std::uint64_t room = std::max({kLeastComparedBytes, SparseRanges::least_room(x_, by_),
                                             SparseRanges::least_room(y_, of_y(by_, options_.transposed))});
        return saturating_add(saturating_add(readers_, kComparedTables), room);
    }
    [[nodiscard]] bool has_room() const { return least_bytes() <= all_; }

    ElementFindings run() {
        x_.set_spare(0);
        y_.set_spare(0);
        const std::uint64_t room = all_ - readers_ - kComparedTables;
        of_x_.emplace(x_, by_, room);
        of_y_.emplace(y_, of_y(by_, options_.transposed), room);
        const std::vector<LineRange> ranges = cut();
        std::uint64_t largest = 0;
        for (const LineRange& range : ranges) largest = std::max(largest, bytes(range));
        if (largest > room) refuse(ranges, room);
        const auto threads = static_cast<int>(
            std::min<std::uint64_t>((room + readers_) / (largest + readers_), options_.threads));
        if (!options_.memory_limit || largest <= kMostComparedKept) keep_freed_memory();
        tell_how(ranges.size());
        FindingsInOrder findings(options_.most_listed);
        parallel_for(std::ssize(ranges), 1, threads, [&](std::int64_t number, std::int64_t) {
            const LineRange& range = ranges[static_cast<std::size_t>(number)];
            findings.take(number, compare(range));
            if (options_.progress != nullptr) options_.progress->bytes_checked += bytes(range);
        });
        return std::move(findings).found();
    }

  private:
    [[nodiscard]] std::uint64_t bytes(const LineRange& range) const {
        const auto of = [&](const SparseRanges& ranges, const formats::Reader& reader) {
            return to_csr_bytes(ranges.block(range).shape(), reader.header().type, ranges.entries_in(range));
        };
        const std::uint64_t y = of(*of_y_, y_);
        return saturating_add(of(*of_x_, x_), options_.transposed ? saturating_multiply(2, y) : y);
    }

    /// Where each range has the starts of all rows, many entries beside those.
    [[nodiscard]] std::uint64_t wanted_bytes() const {
        const std::uint64_t threads = static_cast<std::uint64_t>(options_.threads);
        const std::uint64_t room = (all_ - kComparedTables) / threads;
        const std::int64_t entries = std::max(entries_in_chunks(x_), entries_in_chunks(y_));
        std::uint64_t wanted = std::max(
            kComparedRangeBytes,
            saturating_multiply(2, to_csr_bytes({1, x_.header().shape.cols}, x_.header().type, entries)));
        if (by_ == Lines::columns || options_.transposed)
            wanted = std::max(
                wanted, saturating_multiply(16, csr_bytes({x_.header().shape.rows, 0}, x_.header().type, 0)));
        return std::min(wanted, room - std::min(room, readers_));
    }

    /// Whole steps of both.
    [[nodiscard]] std::vector<LineRange> cut() const {
        return cut_evenly(of_x_->lines(), std::max(of_x_->step(), of_y_->step()), wanted_bytes(),
                          [&](const LineRange& range) { return bytes(range); });
    }

    [[noreturn]] void refuse(const std::vector<LineRange>& ranges, std::uint64_t room) const {
        const LineRange range =
            *std::ranges::max_element(ranges, {}, [&](const LineRange& some) { return bytes(some); });
        throw Error(ErrorCode::memory,
                    words_of_range(to_string(x_.header().source) + " and " + to_string(y_.header().source),
                                   of_x_->block(range).shape(),
                                   of_x_->entries_in(range) + of_y_->entries_in(range), bytes(range), room));
    }

    void tell_how(std::size_t ranges) const {
        std::string text = "compared in " + std::to_string(ranges) + " ranges of " +
                           (by_ == Lines::rows ? "rows" : "columns");
        const auto disk = [&](const formats::Reader& reader, Lines by) {
            if (SparseRanges::through_disk(reader, by))
                text += ", " + to_string(reader.header().source) + " through a temporary file";
        };
        disk(x_, by_);
        disk(y_, of_y(by_, options_.transposed));
        tell(options_.tell, Severity::detail, text);
        if (options_.progress == nullptr) return;
        options_.progress->bytes_to_check = bytes({0, of_x_->lines()});
    }

    ElementFindings compare(const LineRange& range) const {
        std::int64_t duplicates = 0;
        const Csr x = of_x_->read(range, 1, duplicates);
        Csr y = of_y_->read(range, 1, duplicates);
        if (options_.transposed) y = transposed(std::as_const(y).view(), 1);
        ElementFindings found = compare_entries(x.view(), std::as_const(y).view(), one_thread_);
        const Block place = of_x_->block(range);
        const auto move = [&](Difference& difference) {
            difference.row += place.row;
            difference.col += place.col;
        };
        for (auto* largest : {&found.largest_absolute, &found.largest_relative, &found.largest_ulps})
            if (*largest) move(**largest);
        for (Difference& difference : found.first) move(difference);
        return found;
    }

    formats::Reader& x_;
    formats::Reader& y_;
    const CompareOptions& options_;
    CompareOptions one_thread_ = options_;
    Lines by_;
    std::uint64_t all_ = 0;
    std::uint64_t readers_ = 0;  ///< what they take for each thread, beside the ranges
    std::optional<SparseRanges> of_x_;
    std::optional<SparseRanges> of_y_;
};

}  // namespace

bool lie_by_same_lines(const formats::Reader& x, const formats::Reader& y, bool transposed) {
    return x.lines() && y.lines() && *y.lines() == of_y(*x.lines(), transposed);
}

std::optional<ElementFindings> compare_by_ranges(formats::Reader& x, formats::Reader& y,
                                                 const CompareOptions& options, bool fit) {
    if (!options.memory_limit) {
        const auto in_earnest = [](const formats::Header& header) {
            return are_in_earnest(header.file_bytes, formats::sparse_reading_bytes(header));
        };
        if (!in_earnest(x.header()) || !in_earnest(y.header())) return {};
    }
    RangeComparison comparison(x, y, options);
    if (!comparison.has_room()) {
        if (options.memory_limit && !fit && !serve_in_blocks(x.header(), y.header(), *options.memory_limit))
            require_memory(comparison.least_bytes(), options.memory_limit,
                           "comparing " + to_string(x.header().source) + " and " +
                               to_string(y.header().source) + " by ranges of rows or columns");
        return {};
    }
    return comparison.run();
}

}  // namespace gpumat
