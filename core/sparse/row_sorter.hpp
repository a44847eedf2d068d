#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/sparse/csr.hpp"

// Entries in any order become rows: they are first put into blocks of neighbouring rows, and then each block
// is sorted in the cache. Who has the entries gives them twice, to be counted and to be put.

namespace gpumat {

/// Bytes of an element, to move: the same code for all types of a size.
template <std::size_t SIZE>
struct Bytes {
    std::array<std::byte, SIZE> bytes;
};

/// Calls `function(TypeTag<Bytes<SIZE>>{})`.
template <class Function>
decltype(auto) visit_bytes(Type type, Function&& function) {
    switch (size_of(type)) {
        case 1:
            return function(TypeTag<Bytes<1>>{});
        case 2:
            return function(TypeTag<Bytes<2>>{});
        case 4:
            return function(TypeTag<Bytes<4>>{});
        case 8:
            return function(TypeTag<Bytes<8>>{});
        default:
            return function(TypeTag<Bytes<16>>{});
    }
}

/// Of blocks that are sorted through memory of their own, the most entries.
inline constexpr std::int64_t kMostSortedThrough = std::int64_t{1} << 16;

/// Sorts entries by rows, stably: those of a row stay in the order of shares and within each. Several threads
/// may give shares at once, each share by one. T has the bits of a value.
template <class I, class T>
class RowSorter {
    using Within = std::make_unsigned_t<I>;

  public:
    /// Throws Error{memory} naming `what`.
    RowSorter(const Shape& shape, Type type, std::int64_t entries, std::int64_t shares,
              const std::string& what)
        : sorted_(shape, type, entries, what),
          shift_(shift_of(shape.rows, entries)),
          blocks_((last_of(shape.rows) >> shift_) + 1),
          shares_(shares),
          next_(static_cast<std::size_t>(shares * blocks_)),
          starts_(static_cast<std::size_t>(blocks_) + 1),
          within_memory_(static_cast<std::size_t>(entries) * sizeof(Within)),
          within_(reinterpret_cast<Within*>(within_memory_.data())),
          columns_(sorted_.view().template columns_as<I>()),
          values_(reinterpret_cast<T*>(sorted_.view().values)) {}

    /// The counts of a share, to be used by one thread.
    class Counter {
      public:
        void add(I row) { ++next_[row >> shift_]; }

      private:
        friend class RowSorter;
        Counter(std::int64_t* next, int shift) : next_(next), shift_(shift) {}
        std::int64_t* next_;
        int shift_;
    };
    [[nodiscard]] Counter counter(std::int64_t share) { return {next_.data() + share * blocks_, shift_}; }

    /// After all entries were counted.
    void find_places() {
        std::int64_t before = 0;
        for (std::int64_t block = 0; block < blocks_; ++block) {
            starts_[static_cast<std::size_t>(block)] = before;
            for (std::int64_t share = 0; share < shares_; ++share)
                before += std::exchange(next_[static_cast<std::size_t>(share * blocks_ + block)], before);
        }
        starts_.back() = before;
    }

    /// Puts the entries of a share, which were counted.
    class Putter {
      public:
        void put(I row, I col, const T& value) {
            const std::int64_t place = next_[row >> shift_]++;
            within_[place] = static_cast<Within>(row) & mask_;
            columns_[place] = col;
            values_[place] = value;
        }

      private:
        friend class RowSorter;
        Putter(const RowSorter& sorter, std::int64_t* next)
            : next_(next),
              shift_(sorter.shift_),
              mask_(static_cast<Within>((Within{1} << sorter.shift_) - 1)),
              within_(sorter.within_),
              columns_(sorter.columns_),
              values_(sorter.values_) {}
        std::int64_t* next_;
        int shift_;
        Within mask_;
        Within* within_;
        I* columns_;
        T* values_;
    };
    [[nodiscard]] Putter putter(std::int64_t share) { return {*this, next_.data() + share * blocks_}; }

    /// After all entries were put: the rows.
    [[nodiscard]] Csr finish(int threads) {
        const MutableCsrView to = sorted_.view();
        std::atomic<std::int64_t> next_block = 0;
        parallel_for(threads, 1, threads, [&](std::int64_t, std::int64_t) {
            Buffer memory;
            for (std::int64_t block = next_block++; block < blocks_; block = next_block++)
                sort(block, to, memory);
        });
        to.pointers[to.shape.rows] = to.entries;
        return std::move(sorted_);
    }

  private:
    /// The last place that a row within a block has room for.
    static constexpr auto kMostPlaces = static_cast<std::int64_t>(std::min<std::uint64_t>(
        std::numeric_limits<Within>::max(), std::numeric_limits<std::int64_t>::max()));

    static std::int64_t last_of(std::int64_t rows) { return std::max<std::int64_t>(rows, 1) - 1; }

    /// Blocks of so many entries that a sorted one stays in the cache, and no more than have lines there.
    static int shift_of(std::int64_t rows, std::int64_t entries) {
        constexpr std::int64_t kBlockEntries = std::int64_t{1} << 14;
        constexpr std::int64_t kMostBlocks = 2048;
        const std::int64_t wanted = std::clamp<std::int64_t>(entries / kBlockEntries, 1, kMostBlocks);
        int shift = 0;
        while ((last_of(rows) >> shift) >= wanted) ++shift;
        return shift;
    }

    void sort(std::int64_t block, const MutableCsrView& to, Buffer& memory) {
        const std::int64_t first = starts_[static_cast<std::size_t>(block)];
        const std::int64_t count = starts_[static_cast<std::size_t>(block) + 1] - first;
        const std::int64_t row = block << shift_;
        const std::int64_t rows = std::min(to.shape.rows - row, std::int64_t{1} << shift_);
        if (rows <= 0) return;
        std::int64_t* const pointers = to.pointers + row;
        std::fill_n(pointers, rows, 0);
        for (std::int64_t n = first; n < first + count; ++n) ++pointers[within_[n]];
        std::int64_t before = first;
        for (std::int64_t i = 0; i < rows; ++i) before += std::exchange(pointers[i], before);
        if (count <= kMostSortedThrough || count - 1 > kMostPlaces) {
            sort_through(first, count, pointers, memory);
        } else {
            sort_in_place(first, count, pointers);
        }
        // Each pointer has come to the end of its row, where the next one begins.
        for (std::int64_t i = rows - 1; i > 0; --i) pointers[i] = pointers[i - 1];
        pointers[0] = first;
    }

    void sort_through(std::int64_t first, std::int64_t count, std::int64_t* pointers, Buffer& memory) {
        const auto entries = static_cast<std::size_t>(count);
        if (memory.size() < entries * (sizeof(T) + sizeof(I)))
            memory = Buffer((entries + entries / 4) * (sizeof(T) + sizeof(I)));
        I* const columns = reinterpret_cast<I*>(memory.data());
        T* const values = reinterpret_cast<T*>(memory.data() + entries * sizeof(I));
        for (std::int64_t n = first; n < first + count; ++n) {
            const std::int64_t place = pointers[within_[n]]++ - first;
            columns[place] = columns_[n];
            values[place] = values_[n];
        }
        std::copy_n(columns, count, columns_ + first);
        std::copy_n(values, count, values_ + first);
    }

    /// By cycles, with no memory beside: a row of many entries.
    void sort_in_place(std::int64_t first, std::int64_t count, std::int64_t* pointers) {
        Within* const places = within_ + first;
        for (std::int64_t n = 0; n < count; ++n)
            places[n] = static_cast<Within>(pointers[places[n]]++ - first);
        for (std::int64_t n = 0; n < count; ++n) {
            while (static_cast<std::int64_t>(places[n]) != n) {
                const auto place = static_cast<std::int64_t>(places[n]);
                std::swap(columns_[first + n], columns_[first + place]);
                std::swap(values_[first + n], values_[first + place]);
                std::swap(places[n], places[place]);
            }
        }
    }

    Csr sorted_;
    int shift_;
    std::int64_t blocks_;
    std::int64_t shares_;
    std::vector<std::int64_t> next_;    ///< by share and block: its entries, then the next place
    std::vector<std::int64_t> starts_;  ///< of each block, and the end of the last one
    Buffer within_memory_;
    Within* within_;  ///< the row of each entry within its block
    I* columns_;
    T* values_;
};

/// What it takes at most beside the rows and the entries, but for counts of blocks. Blocks are sorted once
/// the entries are no longer needed.
inline std::uint64_t row_sorter_bytes(const Shape& shape, std::int64_t entries) {
    return static_cast<std::uint64_t>(entries) * index_bytes(shape);
}

}  // namespace gpumat
