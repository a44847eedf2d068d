#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/sparse/csr.hpp"
#include "kernels/common/launch.cuh"
#include "kernels/transpose/move.hpp"

// What the levels of sparse matrices share: entries, and where they come from and go.

namespace gpumat::transpose::gpu::sparse {

/// An entry on its way, which is written as whole words of 16 bytes.
template <class I, class T>
struct alignas(16) Entry {
    T value;
    I row;
    I column;
};

/// The row of entry `at`, which is `row` or a later one: most often it is near.
__device__ __forceinline__ std::int64_t row_of(const std::int64_t* pointers, std::int64_t rows,
                                               std::int64_t row, std::int64_t at) {
    std::int64_t step = 1;
    while (row + step < rows && pointers[row + step] <= at) {
        row += step;
        step *= 2;
    }
    // The entry lies from pointers[row] up to pointers[end].
    std::int64_t end = row + step < rows ? row + step : rows;
    while (end - row > 1) {
        const std::int64_t middle = row + (end - row) / 2;
        if (pointers[middle] <= at) {
            row = middle;
        } else {
            end = middle;
        }
    }
    return row;
}

/// The entries of compressed rows. Each thread keeps the row that it is in, from one entry to a later one.
template <class I, class T>
struct CsrSource {
    using Value = Entry<I, T>;
    const std::int64_t* pointers;
    const I* columns;
    const T* values;
    std::int64_t rows;

    [[nodiscard]] __device__ I column(std::int64_t at) const { return columns[at]; }
    /// The row of an entry, for a warp that begins with it; all lanes look for it together.
    [[nodiscard]] __device__ std::int64_t row_of_first(std::int64_t at, int lane) const {
        std::int64_t row = 0;
        std::int64_t end = rows;
        while (end - row > 1) {
            const std::int64_t step = (end - row + 31) / 32;
            const std::int64_t mine = row + (lane + 1) * step;
            const int behind = __popc(__ballot_sync(~0U, mine < end && pointers[mine] <= at));
            row += behind * step;
            end = row + step < end ? row + step : end;
        }
        return row;
    }
    [[nodiscard]] __device__ Entry<I, T> entry(std::int64_t at, std::int64_t& row) const {
        row = row_of(pointers, rows, row, at);
        return {values[at], static_cast<I>(row), columns[at]};
    }
};

/// Entries on their way.
template <class I, class T>
struct EntrySource {
    using Value = Entry<I, T>;
    const Entry<I, T>* entries;

    [[nodiscard]] __device__ I column(std::int64_t at) const { return entries[at].column; }
    [[nodiscard]] __device__ std::int64_t row_of_first(std::int64_t, int) const { return 0; }
    [[nodiscard]] __device__ Entry<I, T> entry(std::int64_t at, std::int64_t&) const {
        constexpr int kWords = sizeof(Entry<I, T>) / sizeof(uint4);
        uint4 words[kWords];
        for (int i = 0; i < kWords; ++i) words[i] = reinterpret_cast<const uint4*>(entries + at)[i];
        Entry<I, T> entry;
        memcpy(&entry, words, sizeof entry);
        return entry;
    }
};

template <class I, class T>
struct EntrySink {
    Entry<I, T>* entries;

    __device__ void store(std::int64_t place, const Entry<I, T>& entry) const {
        constexpr int kWords = sizeof(Entry<I, T>) / sizeof(uint4);
        uint4 words[kWords];
        memcpy(words, &entry, sizeof entry);
        for (int i = 0; i < kWords; ++i) reinterpret_cast<uint4*>(entries + place)[i] = words[i];
    }
};

/// The rows of the transpose: what was a row is a column there.
template <class I, class T>
struct CsrSink {
    I* rows;
    T* values;

    __device__ void store(std::int64_t place, const Entry<I, T>& entry) const {
        rows[place] = entry.row;
        values[place] = entry.value;
    }
};

template <class I, class T>
CsrSource<I, T> source_of(const Operands& operands) {
    return {operands.a.pointers, static_cast<const I*>(operands.a.columns), operands.a.as<T>(),
            operands.a.rows};
}

template <class I, class T>
CsrSink<I, T> sink_of(const Operands& operands) {
    return {static_cast<I*>(operands.c.columns), operands.c.as<T>()};
}

/// Calls `function(TypeTag<I>{}, TypeTag<T>{}, TypeTag<Place>{})` with the type of the indices, the plain
/// type that has the size of the values, and one that places of entries fit into.
template <class Function>
decltype(auto) visit_entries(const Problem& problem, Function&& function) {
    const bool short_places = problem.entries.front() < (std::int64_t{1} << 32);
    return visit_element(problem.type, [&]<class T>(TypeTag<T> value) -> decltype(auto) {
        if (!has_short_indices({problem.m, problem.n}))
            return function(TypeTag<std::int64_t>{}, value, TypeTag<std::uint64_t>{});
        if (!short_places) return function(TypeTag<std::int32_t>{}, value, TypeTag<std::uint64_t>{});
        return function(TypeTag<std::int32_t>{}, value, TypeTag<std::uint32_t>{});
    });
}

/// Memory of the device that a launch holds.
class Workspace {
  public:
    explicit Workspace(const Gpu& gpu) : gpu_(gpu) {}

    template <class E>
    E* take(std::int64_t count) {
        const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(E);
        bytes_ += bytes;
        return static_cast<E*>(memory_.emplace_back(gpu_.allocate(bytes)).data());
    }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  private:
    const Gpu& gpu_;
    std::vector<DeviceMemory> memory_;
    std::uint64_t bytes_ = 0;
};

/// What every level does where there are no entries.
inline Launch no_entries(std::string_view level, const Operands& operands) {
    return {.level = level, .run = [c = operands.c](Stream stream) {
                const auto bytes = static_cast<std::size_t>(c.rows + 1) * sizeof *c.pointers;
                GPUMAT_CUDA(cudaMemsetAsync(c.pointers, 0, bytes, cuda_stream(stream)));
            }};
}

/// Bits that tell `count` numbers from 0 on apart.
inline int bits_of(std::int64_t count) {
    int bits = 0;
    while (((count - 1) >> bits) > 0) ++bits;
    return bits;
}

/// Blocks of `threads` for so many pieces of work, of which each thread takes several where there are many.
inline dim3 blocks_for(std::int64_t work, int threads) {
    constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
    return dim3(
        static_cast<unsigned>(std::clamp<std::int64_t>((work + threads - 1) / threads, 1, kMostBlocks)));
}

}  // namespace gpumat::transpose::gpu::sparse
