#pragma once

#include <bit>

#include "kernels/transpose/gpu/sparse/entries.cuh"
#include "kernels/transpose/gpu/sparse/scan.cuh"

// Entries are put in order of some bits of their column, and stay in the order that they had where those bits
// are equal. A block takes a tile of entries, counts them by digit, learns from the counts of the tiles
// before it where its own entries of each digit begin, puts the tile in order in shared memory and writes
// runs of it: whole sectors, and no atomics, so that every run gives the same. Segments are sorted each by
// itself; a tile lies in one of them.

namespace gpumat::transpose::gpu::sparse {

constexpr int kWarp = 32;
constexpr int kThreads = 512;  ///< of a block
constexpr int kWarps = kThreads / kWarp;
constexpr int kTileBytes = 64 * 1024;

/// Entries of a full tile, and of a thread.
template <class Value>
constexpr int kTile = kTileBytes / sizeof(Value);
template <class Value>
constexpr int kItems = kTile<Value> / kThreads;

/// Some bits of a column.
struct Digit {
    int shift;
    int bits;

    [[nodiscard]] __host__ __device__ int count() const { return 1 << bits; }
    template <class I>
    [[nodiscard]] __device__ int of(I column) const {
        return static_cast<int>(column >> shift) & (count() - 1);
    }
};

/// The entries of a tile.
struct Tile {
    std::int64_t segment;
    std::int64_t begin;
    std::int64_t end;
};

/// Segments cut at all multiples of 2^shift. A cut and a new segment both begin a tile, so that the tile in
/// which entry `at` of segment s lies has the number (at >> shift) + s. A tile may be empty.
struct Tiles {
    const std::int64_t* starts;  ///< of each segment, and the end of the last one; null: there is one
    std::int64_t segments;
    std::int64_t entries;
    int shift;

    [[nodiscard]] __host__ __device__ std::int64_t count() const { return (entries >> shift) + segments; }
    [[nodiscard]] __device__ std::int64_t start(std::int64_t segment) const {
        if (starts != nullptr) return starts[segment];
        return segment == 0 ? 0 : entries;
    }
    /// The first tile of a segment; that of the one behind the last segment is the count.
    [[nodiscard]] __device__ std::int64_t first(std::int64_t segment) const {
        return (start(segment) >> shift) + segment;
    }
    [[nodiscard]] __device__ Tile tile(std::int64_t number) const {
        std::int64_t segment = 0;
        for (std::int64_t end = segments; end - segment > 1;) {
            const std::int64_t middle = segment + (end - segment) / 2;
            if (first(middle) <= number) {
                segment = middle;
            } else {
                end = middle;
            }
        }
        const std::int64_t cut = (number - segment) << shift;
        const std::int64_t next_cut = cut + (std::int64_t{1} << shift);
        const std::int64_t begin = start(segment);
        const std::int64_t end = start(segment + 1);
        return {segment, begin > cut ? begin : cut, end < next_cut ? end : next_cut};
    }
};

/// counts[tile][digit].
template <class Source, class Place>
__global__ void __launch_bounds__(kThreads)
    count_kernel(Source source, Tiles tiles, Digit digit, Place* counts) {
    constexpr int kMine = kItems<typename Source::Value>;
    extern __shared__ unsigned count_memory[];
    const int thread = static_cast<int>(threadIdx.x);
    for (int d = thread; d < digit.count(); d += kThreads) count_memory[d] = 0;
    const Tile tile = tiles.tile(blockIdx.x);
    int digits[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
        const std::int64_t at = tile.begin + i * kThreads + thread;
        digits[i] = at < tile.end ? digit.of(source.column(at)) : -1;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kMine; ++i)
        if (digits[i] >= 0) atomicAdd(count_memory + digits[i], 1U);
    __syncthreads();
    for (int d = thread; d < digit.count(); d += kThreads)
        counts[std::int64_t{blockIdx.x} * digit.count() + d] = count_memory[d];
}

/// A block takes some digits of a segment. Counts become sums over the tiles of the segment before;
/// totals[segment][digit].
template <int DIGITS, int GROUPS, class Place>
__global__ void __launch_bounds__(DIGITS* GROUPS)
    add_tiles_kernel(Tiles tiles, Digit digit, Place* counts, Place* totals) {
    __shared__ Place sums[GROUPS][DIGITS];
    const std::int64_t segment = blockIdx.x;
    const int d = static_cast<int>(blockIdx.y) * DIGITS + static_cast<int>(threadIdx.x);
    const bool inside = d < digit.count();
    const int group = static_cast<int>(threadIdx.y);
    const std::int64_t first = tiles.first(segment);
    const std::int64_t count = tiles.first(segment + 1) - first;
    const std::int64_t share = (count + GROUPS - 1) / GROUPS;
    const std::int64_t begin = first + (group * share < count ? group * share : count);
    const std::int64_t end = first + ((group + 1) * share < count ? (group + 1) * share : count);
    Place sum = 0;
    if (inside) {
#pragma unroll 8
        for (std::int64_t t = begin; t < end; ++t) sum += counts[t * digit.count() + d];
    }
    sums[group][threadIdx.x] = sum;
    __syncthreads();
    if (!inside) return;
    Place before = 0;
    for (int g = 0; g < group; ++g) before += sums[g][threadIdx.x];
    if (group == GROUPS - 1) totals[segment * digit.count() + d] = before + sum;
#pragma unroll 8
    for (std::int64_t t = begin; t < end; ++t) {
        const Place here = counts[t * digit.count() + d];
        counts[t * digit.count() + d] = before;
        before += here;
    }
}

/// Shared memory of a block that places entries.
template <class Place>
std::size_t place_bytes(const Digit& digit) {
    return kTileBytes + static_cast<std::size_t>(digit.count()) *
                            (sizeof(Place) + sizeof(unsigned) + kWarps * sizeof(std::uint16_t));
}

/// Why a device has not as much, for digits of so many bits.
inline Reasons place_unsupported(int bits, const Device& device) {
    if (device.gpu == nullptr) return {};
    const std::size_t most = device.gpu->info().shared_bytes_per_block;
    const std::size_t wanted = place_bytes<std::uint64_t>({0, bits});
    if (wanted <= most) return {};
    return {"it needs " + std::to_string(wanted) + " bytes of shared memory a block; the device has " +
            std::to_string(most)};
}

/// Places the entries: those of segment s with digit d begin at starts[s·digits + d], of which there are
/// `known`; the digits behind them have no entries.
template <class Source, class Sink, class Place>
__global__ void __launch_bounds__(kThreads)
    place_kernel(Source source, Sink sink, Tiles tiles, Digit digit, const Place* counts,
                 const std::int64_t* starts, std::int64_t known) {
    using Value = typename Source::Value;
    constexpr int kMine = kItems<Value>;
    extern __shared__ uint4 place_memory[];
    auto* const ordered = reinterpret_cast<Value*>(place_memory);
    auto* const places = reinterpret_cast<Place*>(ordered + kTile<Value>);  // of each digit, less its begin
    auto* const begins = reinterpret_cast<unsigned*>(places + digit.count());  // of each digit in the tile
    auto* const counters = reinterpret_cast<std::uint16_t*>(begins + digit.count());  // by warp and digit
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % kWarp;
    const int warp = thread / kWarp;
    const Tile tile = tiles.tile(blockIdx.x);
    if (tile.begin >= tile.end) return;
    for (int i = thread; i < kWarps * digit.count(); i += kThreads) counters[i] = 0;

    // Each warp has neighbours, and counts how many of a digit come before each.
    const std::int64_t first = tile.begin + warp * kMine * kWarp;
    std::int64_t row = first < tile.end ? source.row_of_first(first, lane) : 0;
    Value entries[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
        const std::int64_t at = first + i * kWarp + lane;
        if (at < tile.end) entries[i] = source.entry(at, row);
    }
    __syncthreads();
    std::uint16_t* const mine = counters + warp * digit.count();
    unsigned ranks[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
        const bool active = first + i * kWarp + lane < tile.end;
        const int d = active ? digit.of(entries[i].column) : -1;
        const unsigned peers = __match_any_sync(~0U, d);
        const unsigned before = active ? mine[d] : 0;
        ranks[i] = before + __popc(peers & ((1U << lane) - 1));
        __syncwarp();
        if (active && ranks[i] == before) mine[d] = static_cast<std::uint16_t>(before + __popc(peers));
        __syncwarp();
    }
    __syncthreads();

    // Where each digit begins in the tile, and each warp's part of it.
    std::int64_t all_before = 0;
    for (int first_digit = 0; first_digit < digit.count(); first_digit += kThreads) {
        const int d = first_digit + thread;
        unsigned sum = 0;
        if (d < digit.count()) {
            for (int w = 0; w < kWarps; ++w) {
                const unsigned count = counters[w * digit.count() + d];
                counters[w * digit.count() + d] = static_cast<std::uint16_t>(sum);
                sum += count;
            }
        }
        std::int64_t all = 0;
        const auto begin = static_cast<unsigned>(all_before + sum_before<kThreads>(sum, all));
        all_before += all;
        const std::int64_t start = tile.segment * digit.count() + d;
        if (d < digit.count() && start < known) {
            begins[d] = begin;
            places[d] = static_cast<Place>(starts[start]) +
                        counts[std::int64_t{blockIdx.x} * digit.count() + d] - begin;
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
        if (first + i * kWarp + lane >= tile.end) continue;
        const int d = digit.of(entries[i].column);
        ordered[begins[d] + mine[d] + ranks[i]] = entries[i];
    }
    __syncthreads();
    const int count = static_cast<int>(tile.end - tile.begin);
    for (int i = thread; i < count; i += kThreads) {
        const Value entry = ordered[i];
        const Place place = places[digit.of(entry.column)] + static_cast<Place>(i);
        sink.store(static_cast<std::int64_t>(place), entry);
    }
}

/// The steps of a partition, for tiles that are there or come to be before they run.
template <class Place>
struct Partition {
    Tiles tiles;
    Digit digit;
    Place* counts;         ///< by tile and digit
    Place* totals;         ///< by segment and digit
    std::int64_t* starts;  ///< by segment and digit, the first `known` of them, and behind them the end
    std::int64_t known;
    std::int64_t* scan;  ///< scan_words(known)

    [[nodiscard]] dim3 grid() const { return dim3(static_cast<unsigned>(tiles.count())); }

    template <class Source>
    void count(const Source& source, cudaStream_t stream) const {
        const std::size_t shared = static_cast<std::size_t>(digit.count()) * sizeof(unsigned);
        count_kernel<<<grid(), kThreads, shared, stream>>>(source, tiles, digit, counts);
        GPUMAT_CUDA(cudaGetLastError());
    }

    void find_places(cudaStream_t stream) const {
        const auto add = [&](const auto& kernel, int digits, int groups) {
            const dim3 blocks(static_cast<unsigned>(tiles.segments),
                              static_cast<unsigned>((digit.count() + digits - 1) / digits));
            kernel<<<blocks, dim3(digits, groups), 0, stream>>>(tiles, digit, counts, totals);
            GPUMAT_CUDA(cudaGetLastError());
        };
        if (tiles.segments > 1) {
            add(add_tiles_kernel<32, 4, Place>, 32, 4);
        } else {
            add(add_tiles_kernel<8, 128, Place>, 8, 128);
        }
        exclusive_scan(totals, known, starts, scan, stream);
    }

    template <class Source, class Sink>
    void place(const Source& source, const Sink& sink, cudaStream_t stream) const {
        const std::size_t shared = place_bytes<Place>(digit);
        allow_shared_memory(reinterpret_cast<const void*>(&place_kernel<Source, Sink, Place>), shared);
        place_kernel<<<grid(), kThreads, shared, stream>>>(source, sink, tiles, digit, counts, starts, known);
        GPUMAT_CUDA(cudaGetLastError());
    }
};

/// The shift of tiles of such entries.
template <class Value>
constexpr int kTileShift = std::countr_zero(static_cast<unsigned>(kTile<Value>));

}  // namespace gpumat::transpose::gpu::sparse
