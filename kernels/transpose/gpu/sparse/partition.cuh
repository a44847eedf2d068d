#pragma once

#include "kernels/transpose/gpu/sparse/entries.cuh"
#include "kernels/transpose/gpu/sparse/scan.cuh"

// Entries are put in order of some bits of their column, and stay in the order that they had where those bits
// are equal. Each warp takes a run of entries (a unit), counts them by digit, learns from the counts of the
// units before it where its own entries of each digit begin, and places them one by one: no atomics, so that
// every run gives the same. Segments are sorted each by itself; a unit lies in one of them.

namespace gpumat::transpose::gpu::sparse {

constexpr int kWarp = 32;
constexpr int kUnitsOfBlock = 4;  ///< a warp each
constexpr int kAhead = 4;         ///< loads that a thread has in flight

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

/// The entries of a unit.
struct Unit {
    std::int64_t segment;
    std::int64_t begin;
    std::int64_t end;
};

/// Segments cut at all multiples of `length`. A cut and a new segment both begin a unit, so that the unit in
/// which entry `at` of segment s lies has the number at / length + s. A unit may be empty.
struct UnitList {
    const std::int64_t* starts;  ///< of each segment, and the end of the last one; null: there is one
    std::int64_t segments;
    std::int64_t entries;
    std::int64_t length;

    [[nodiscard]] __host__ __device__ std::int64_t count() const { return entries / length + segments; }
    [[nodiscard]] __device__ std::int64_t start(std::int64_t segment) const {
        if (starts != nullptr) return starts[segment];
        return segment == 0 ? 0 : entries;
    }
    /// The first unit of a segment; that of the one behind the last segment is the count.
    [[nodiscard]] __device__ std::int64_t first(std::int64_t segment) const {
        return start(segment) / length + segment;
    }
    [[nodiscard]] __device__ Unit unit(std::int64_t number) const {
        std::int64_t segment = 0;
        for (std::int64_t end = segments; end - segment > 1;) {
            const std::int64_t middle = segment + (end - segment) / 2;
            if (first(middle) <= number) {
                segment = middle;
            } else {
                end = middle;
            }
        }
        const std::int64_t cut = (number - segment) * length;
        const std::int64_t begin = start(segment);
        const std::int64_t end = start(segment + 1);
        return {segment, begin > cut ? begin : cut, end < cut + length ? end : cut + length};
    }
};

/// Entries of a unit: one for each of so many warps that fill the device.
inline std::int64_t unit_length(std::int64_t entries, int multiprocessors) {
    constexpr std::int64_t kLeast = 1024;
    constexpr std::int64_t kWarpsOfMultiprocessor = 32;
    const std::int64_t units = multiprocessors * kWarpsOfMultiprocessor;
    return std::max(kLeast, (entries + units - 1) / units);
}

/// counts[unit][digit].
template <class Source, class Place>
__global__ void __launch_bounds__(kWarp* kUnitsOfBlock)
    count_kernel(Source source, UnitList units, Digit digit, Place* counts) {
    extern __shared__ std::uint64_t count_memory[];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const std::int64_t number = std::int64_t{blockIdx.x} * kUnitsOfBlock + warp;
    if (number >= units.count()) return;
    auto* const mine = reinterpret_cast<unsigned*>(count_memory) + warp * digit.count();
    for (int d = lane; d < digit.count(); d += kWarp) mine[d] = 0;
    __syncwarp();
    const Unit unit = units.unit(number);
    for (std::int64_t at = unit.begin + lane; at < unit.end; at += kAhead * kWarp) {
        int digits[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i)
            digits[i] = at + i * kWarp < unit.end ? digit.of(source.column(at + i * kWarp)) : -1;
#pragma unroll
        for (int i = 0; i < kAhead; ++i)
            if (digits[i] >= 0) atomicAdd(mine + digits[i], 1U);
    }
    __syncwarp();
    for (int d = lane; d < digit.count(); d += kWarp) counts[number * digit.count() + d] = mine[d];
}

constexpr int kDigitsOfBlock = 32;

/// A block takes 32 digits of a segment. Counts become sums over the units of the segment before;
/// totals[segment][digit].
template <int GROUPS, class Place>
__global__ void __launch_bounds__(kDigitsOfBlock* GROUPS)
    add_units_kernel(UnitList units, Digit digit, Place* counts, Place* totals) {
    __shared__ Place sums[GROUPS][kDigitsOfBlock];
    const std::int64_t segment = blockIdx.x;
    const int d = static_cast<int>(blockIdx.y) * kDigitsOfBlock + static_cast<int>(threadIdx.x);
    const bool inside = d < digit.count();
    const int group = static_cast<int>(threadIdx.y);
    const std::int64_t first = units.first(segment);
    const std::int64_t count = units.first(segment + 1) - first;
    const std::int64_t share = (count + GROUPS - 1) / GROUPS;
    const std::int64_t begin = first + group * share;
    const std::int64_t end = first + (count < (group + 1) * share ? count : (group + 1) * share);
    Place sum = 0;
    if (inside) {
#pragma unroll 8
        for (std::int64_t u = begin; u < end; ++u) sum += counts[u * digit.count() + d];
    }
    sums[group][threadIdx.x] = sum;
    __syncthreads();
    if (!inside) return;
    Place before = 0;
    for (int g = 0; g < group; ++g) before += sums[g][threadIdx.x];
    if (group == GROUPS - 1) totals[segment * digit.count() + d] = before + sum;
#pragma unroll 8
    for (std::int64_t u = begin; u < end; ++u) {
        const Place here = counts[u * digit.count() + d];
        counts[u * digit.count() + d] = before;
        before += here;
    }
}

/// Places the entries: those of segment s with digit d begin at starts[s·digits + d], of which there are
/// `known`; the digits behind them have no entries.
template <class Source, class Sink, class Place>
__global__ void __launch_bounds__(kWarp* kUnitsOfBlock)
    place_kernel(Source source, Sink sink, UnitList units, Digit digit, const Place* counts,
                 const std::int64_t* starts, std::int64_t known) {
    extern __shared__ std::uint64_t place_memory[];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const std::int64_t number = std::int64_t{blockIdx.x} * kUnitsOfBlock + warp;
    if (number >= units.count()) return;
    const Unit unit = units.unit(number);
    if (unit.begin >= unit.end) return;
    auto* const next = reinterpret_cast<Place*>(place_memory) + warp * digit.count();
    for (int d = lane; d < digit.count(); d += kWarp) {
        const std::int64_t start = unit.segment * digit.count() + d;
        if (start < known) next[d] = static_cast<Place>(starts[start]) + counts[number * digit.count() + d];
    }
    __syncwarp();
    const unsigned lanes_before = (1U << lane) - 1;
    std::int64_t row = 0;
    for (std::int64_t first = unit.begin; first < unit.end; first += kAhead * kWarp) {
        decltype(source.entry(0, row)) entries[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const std::int64_t at = first + i * kWarp + lane;
            if (at < unit.end) entries[i] = source.entry(at, row);
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const bool active = first + i * kWarp + lane < unit.end;
            const int d = active ? digit.of(entries[i].column) : -1;
            const unsigned peers = __match_any_sync(~0U, d);
            const int rank = __popc(peers & lanes_before);
            const Place place = active ? next[d] + static_cast<Place>(rank) : Place{0};
            __syncwarp();
            if (active && rank == 0) next[d] = place + static_cast<Place>(__popc(peers));
            __syncwarp();
            if (active) sink.store(static_cast<std::int64_t>(place), entries[i]);
        }
    }
}

/// The steps of a partition, for units that are there or come to be before they run.
template <class Place>
struct Partition {
    UnitList units;
    Digit digit;
    Place* counts;         ///< by unit and digit
    Place* totals;         ///< by segment and digit
    std::int64_t* starts;  ///< by segment and digit, the first `known` of them, and behind them the end
    std::int64_t known;
    std::int64_t* scan;  ///< scan_words(known)

    [[nodiscard]] dim3 grid() const {
        return dim3(static_cast<unsigned>((units.count() + kUnitsOfBlock - 1) / kUnitsOfBlock));
    }

    template <class Source>
    void count(const Source& source, cudaStream_t stream) const {
        const std::size_t shared = static_cast<std::size_t>(digit.count()) * kUnitsOfBlock * sizeof(unsigned);
        allow_shared_memory(reinterpret_cast<const void*>(&count_kernel<Source, Place>), shared);
        count_kernel<<<grid(), kWarp * kUnitsOfBlock, shared, stream>>>(source, units, digit, counts);
        GPUMAT_CUDA(cudaGetLastError());
    }

    void find_places(cudaStream_t stream) const {
        const dim3 blocks(static_cast<unsigned>(units.segments),
                          static_cast<unsigned>((digit.count() + kDigitsOfBlock - 1) / kDigitsOfBlock));
        constexpr int kFew = 4;
        constexpr int kMany = 32;
        if (units.segments > 1) {
            add_units_kernel<kFew>
                <<<blocks, dim3(kDigitsOfBlock, kFew), 0, stream>>>(units, digit, counts, totals);
        } else {
            add_units_kernel<kMany>
                <<<blocks, dim3(kDigitsOfBlock, kMany), 0, stream>>>(units, digit, counts, totals);
        }
        GPUMAT_CUDA(cudaGetLastError());
        exclusive_scan(totals, known, starts, scan, stream);
    }

    template <class Source, class Sink>
    void place(const Source& source, const Sink& sink, cudaStream_t stream) const {
        const std::size_t shared = static_cast<std::size_t>(digit.count()) * kUnitsOfBlock * sizeof(Place);
        allow_shared_memory(reinterpret_cast<const void*>(&place_kernel<Source, Sink, Place>), shared);
        place_kernel<<<grid(), kWarp * kUnitsOfBlock, shared, stream>>>(source, sink, units, digit, counts,
                                                                        starts, known);
        GPUMAT_CUDA(cudaGetLastError());
    }
};

}  // namespace gpumat::transpose::gpu::sparse
