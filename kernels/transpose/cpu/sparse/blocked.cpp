// transpose of sparse matrices, CPU level `blocked`: entries are first put into blocks of neighbouring
// columns, and then each block is sorted by column in the cache.
//
// Since `counting`: no cache miss an entry. The first step writes to as many places as there are blocks,
// whose lines stay in the cache until they are full; a block of the second step fits the cache. A block
// already lies where the rows of its columns will be, so that the first step writes into the result, and
// beside it needs only the column within the block: 4 bytes an entry (8 where indices are of 64 bits).
// Traffic: the columns are read twice, and every entry is read, written, read and written once more. What
// limits it: that traffic, and an instruction or two for each of these.
//
// A block may have more entries than others: a dense column. One that does not fit the cache is sorted where
// it lies, by cycles, so that no memory is taken for it.
//
// Source of the idea: radix partitioning of joins in memory (Manegold, Boncz and Kersten 2002).
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/transpose/cpu/sparse/entries.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"

namespace gpumat::transpose::cpu::sparse {
namespace {

/// Entries that a block shall have: with their columns and what they are sorted into, half a megabyte.
constexpr std::int64_t kBlockEntries = std::int64_t{1} << 14;
/// Those of the largest block that is sorted through memory of its own.
constexpr std::int64_t kMostSorted = 4 * kBlockEntries;
/// Blocks of which each has some lines in the cache.
constexpr std::int64_t kMostBlocks = 2048;

/// Blocks of 2^shift columns.
struct Blocks {
    int shift = 0;
    std::int64_t count = 1;
};

Blocks blocks_of(const Problem& problem) {
    const std::int64_t wanted =
        std::clamp<std::int64_t>(problem.entries.front() / kBlockEntries, 1, kMostBlocks);
    Blocks blocks;
    const std::int64_t last = std::max<std::int64_t>(problem.n, 1) - 1;
    while ((last >> blocks.shift) >= wanted) ++blocks.shift;
    blocks.count = (last >> blocks.shift) + 1;
    return blocks;
}

/// What a launch holds beside the matrices.
struct Workspace {
    Buffer within;                    ///< the column of each entry within its block
    std::vector<std::int64_t> next;   ///< by share and block, the next place
    std::vector<std::int64_t> start;  ///< of each block, and the end of the last one
    std::vector<Buffer> sorted;       ///< a block, by thread
};

template <class I, class T>
class BlockedTranspose {
  public:
    BlockedTranspose(const Operand& in, const MutableOperand& out, const Blocks& blocks, Workspace& work,
                     int threads)
        : in_(in),
          out_(out),
          blocks_(blocks),
          work_(work),
          threads_(threads),
          rows_(static_cast<I*>(out.columns)),
          values_(out.as<T>()),
          within_(reinterpret_cast<Within*>(work.within.data())) {}

    void run() {
        for_each_thread([&](std::int64_t share) { count(share); });
        find_places();
        for_each_thread([&](std::int64_t share) { partition(share); });
        std::atomic<std::int64_t> next_block = 0;
        for_each_thread([&](std::int64_t thread) {
            Buffer& memory = work_.sorted[static_cast<std::size_t>(thread)];
            for (std::int64_t block = next_block++; block < blocks_.count; block = next_block++)
                sort(block, memory);
        });
        out_.pointers[out_.rows] = in_.entries;
    }

  private:
    using Within = std::make_unsigned_t<I>;

    template <class Act>
    void for_each_thread(const Act& act) const {
        parallel_for(threads_, 1, threads_, [&](std::int64_t thread, std::int64_t) { act(thread); });
    }
    [[nodiscard]] std::int64_t begin_of(std::int64_t share) const {
        return begin_of_share(in_.entries, share, threads_);
    }
    [[nodiscard]] std::int64_t* next_of(std::int64_t share) const {
        return work_.next.data() + share * blocks_.count;
    }

    void count(std::int64_t share) const {
        const I* const columns = static_cast<const I*>(in_.columns);
        std::int64_t* const counts = next_of(share);
        std::fill_n(counts, blocks_.count, 0);
        const std::int64_t end = begin_of(share + 1);
        for (std::int64_t at = begin_of(share); at < end; ++at) ++counts[columns[at] >> blocks_.shift];
    }

    void find_places() const {
        std::int64_t before = 0;
        for (std::int64_t block = 0; block < blocks_.count; ++block) {
            work_.start[static_cast<std::size_t>(block)] = before;
            for (std::int64_t share = 0; share < threads_; ++share)
                before += std::exchange(next_of(share)[block], before);
        }
        work_.start[static_cast<std::size_t>(blocks_.count)] = before;
    }

    void partition(std::int64_t share) const {
        const I* const columns = static_cast<const I*>(in_.columns);
        const T* const values = in_.as<T>();
        std::int64_t* const next = next_of(share);
        const auto mask = static_cast<Within>((Within{1} << blocks_.shift) - 1);
        for_each_entry(in_, begin_of(share), begin_of(share + 1), [&](std::int64_t row, std::int64_t at) {
            const I column = columns[at];
            const std::int64_t place = next[column >> blocks_.shift]++;
            rows_[place] = static_cast<I>(row);
            values_[place] = values[at];
            within_[place] = static_cast<Within>(column) & mask;
        });
    }

    /// The entries of a block by column; those of a column stay in their order, which is that of the rows.
    void sort(std::int64_t block, Buffer& memory) const {
        const std::int64_t first = work_.start[static_cast<std::size_t>(block)];
        const std::int64_t count = work_.start[static_cast<std::size_t>(block) + 1] - first;
        const std::int64_t column = block << blocks_.shift;
        const std::int64_t width = std::min(out_.rows - column, std::int64_t{1} << blocks_.shift);
        if (width <= 0) return;
        std::int64_t* const starts = out_.pointers + column;
        std::fill_n(starts, width, 0);
        for (std::int64_t n = 0; n < count; ++n) ++starts[within_[first + n]];
        add_up(starts, width, first);
        if (count <= kMostSorted) {
            sort_through(first, count, starts, memory);
        } else {
            sort_in_place(first, count, starts);
        }
        move_back(starts, width, first);
    }

    void sort_through(std::int64_t first, std::int64_t count, std::int64_t* starts, Buffer& memory) const {
        T* const values = reinterpret_cast<T*>(memory.data());
        I* const rows = reinterpret_cast<I*>(memory.data() + kMostSorted * sizeof(T));
        for (std::int64_t n = first; n < first + count; ++n) {
            const std::int64_t place = starts[within_[n]]++ - first;
            rows[place] = rows_[n];
            values[place] = values_[n];
        }
        std::copy_n(rows, count, rows_ + first);
        std::copy_n(values, count, values_ + first);
    }

    void sort_in_place(std::int64_t first, std::int64_t count, std::int64_t* starts) const {
        Within* const places = within_ + first;
        for (std::int64_t n = 0; n < count; ++n) places[n] = static_cast<Within>(starts[places[n]]++ - first);
        for (std::int64_t n = 0; n < count; ++n) {
            while (static_cast<std::int64_t>(places[n]) != n) {
                const auto place = static_cast<std::int64_t>(places[n]);
                std::swap(rows_[first + n], rows_[first + place]);
                std::swap(values_[first + n], values_[first + place]);
                std::swap(places[n], places[place]);
            }
        }
    }

    const Operand& in_;
    const MutableOperand& out_;
    const Blocks& blocks_;
    Workspace& work_;
    int threads_;
    I* rows_;
    T* values_;
    Within* within_;
};

std::uint64_t sorted_bytes(const Problem& problem) {
    return kMostSorted * (size_of(problem.type) + index_bytes({problem.m, problem.n}));
}

}  // namespace

std::uint64_t blocked_bytes(const Problem& problem, int threads) {
    const Blocks blocks = blocks_of(problem);
    const auto shares = static_cast<std::uint64_t>(threads);
    return static_cast<std::uint64_t>(problem.entries.front()) * index_bytes({problem.m, problem.n}) +
           shares *
               (static_cast<std::uint64_t>(blocks.count) * sizeof(std::int64_t) + sorted_bytes(problem)) +
           (static_cast<std::uint64_t>(blocks.count) + 1) * sizeof(std::int64_t);
}

Launch prepare_blocked(const Problem& problem, const Operands& operands, const Device& device) {
    const Blocks blocks = blocks_of(problem);
    const auto threads = static_cast<std::size_t>(device.threads);
    const auto work = std::make_shared<Workspace>();
    work->within =
        Buffer(static_cast<std::size_t>(problem.entries.front()) * index_bytes({problem.m, problem.n}));
    work->next.resize(threads * static_cast<std::size_t>(blocks.count));
    work->start.resize(static_cast<std::size_t>(blocks.count) + 1);
    for (std::size_t i = 0; i < threads; ++i) work->sorted.emplace_back(sorted_bytes(problem));
    return {.level = "blocked",
            .run =
                [problem, operands, blocks, work, threads = device.threads](Stream) {
                    visit_entries(problem, [&]<class I, class T>(TypeTag<I>, TypeTag<T>) {
                        BlockedTranspose<I, T>(operands.a, operands.c, blocks, *work, threads).run();
                    });
                },
            .details = {{"blocks", std::to_string(blocks.count)},
                        {"columns of a block", std::to_string(std::int64_t{1} << blocks.shift)}}};
}

}  // namespace gpumat::transpose::cpu::sparse
