#pragma once

#include <type_traits>

#include "kernels/transpose/gpu/sparse/partition.cuh"

// The kernels of `onesweep`.

namespace gpumat::transpose::gpu::sparse::sweep {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMostBits = 8;
constexpr int kMostDigits = 1 << kMostBits;
static_assert(kMostDigits <= kThreads);  // a thread has a digit
constexpr int kMostSteps = 64 / kMostBits;
constexpr int kTileBytes = 32 * 1024;
constexpr int kBlocks = 3;  // of a multiprocessor, at least
constexpr int kAtOnce = 4;  // tiles whose counts are looked at together

template <class Value>
constexpr int kItems = kTileBytes / static_cast<int>(sizeof(Value)) / kThreads;
template <class Value>
constexpr int kTile = kItems<Value>* kThreads;

/// Which bits of a column a step takes, and how many tiles there are.
struct Step {
    Digit digit;
    std::int64_t entries;
};

/// What a tile tells later ones of a digit: nothing (0), its own count, or that of all tiles up to it.
template <class Place>
struct Told {
    static constexpr int kBits = 8 * static_cast<int>(sizeof(Place));
    static constexpr Place kAll = Place{1} << (kBits - 1);
    static constexpr Place kOwn = Place{1} << (kBits - 2);
    static constexpr Place kCount = kOwn - 1;
};

// ---- Counts of all digits

struct Steps {
    Digit digits[kMostSteps];
    int count;
};

/// totals[step][digit], which are 0 before.
template <class I>
__global__ void __launch_bounds__(kThreads)
    count_digits_kernel(const I* columns, std::int64_t entries, Steps steps, unsigned long long* totals) {
    __shared__ unsigned counts[kMostSteps][kMostDigits];
    const int thread = static_cast<int>(threadIdx.x);
    for (int s = 0; s < steps.count; ++s) counts[s][thread] = 0;
    __syncthreads();
    constexpr int kAhead = 8;
    const std::int64_t share = std::int64_t{kAhead} * kThreads;
    for (std::int64_t first = blockIdx.x * share; first < entries; first += gridDim.x * share) {
        I mine[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const std::int64_t at = first + i * kThreads + thread;
            mine[i] = at < entries ? columns[at] : I{-1};
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            if (mine[i] < 0) continue;
            for (int s = 0; s < steps.count; ++s) atomicAdd(&counts[s][steps.digits[s].of(mine[i])], 1U);
        }
    }
    __syncthreads();
    for (int s = 0; s < steps.count; ++s)
        if (counts[s][thread] != 0) atomicAdd(totals + s * kMostDigits + thread, counts[s][thread]);
}

/// A block a step: totals become the sums of those before.
static __global__ void __launch_bounds__(kMostDigits) digit_starts_kernel(unsigned long long* totals) {
    unsigned long long* const mine = totals + blockIdx.x * kMostDigits + threadIdx.x;
    std::int64_t all = 0;
    *mine = static_cast<unsigned long long>(sum_before<kMostDigits>(static_cast<std::int64_t>(*mine), all));
}

// ---- Sources of tiles

/// firsts[t] is the row of the first entry of tile t; behind them comes the number of rows.
static __global__ void first_rows_kernel(const std::int64_t* pointers, std::int64_t rows,
                                         std::int64_t entries, std::int64_t tile, std::int64_t tiles,
                                         std::int64_t* firsts) {
    const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (t > tiles) return;
    firsts[t] = t < tiles && t * tile < entries ? row_of(pointers, rows, 0, t * tile) : rows - 1;
}

/// What carries the entries from one step to the next: one of two, so that there are few kernels.
template <class I, class T>
using Carrier = std::conditional_t<sizeof(I) == 4 && sizeof(T) <= 8, Entry<std::int32_t, std::uint64_t>,
                                   Entry<std::int64_t, Bytes16>>;

/// The bytes of a value in a longer or a shorter one.
template <class To, class From>
__device__ __forceinline__ To bytes_in(const From& from) {
    To to{};
    memcpy(&to, &from, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
    return to;
}

/// The entries of a thread, of which each warp has neighbours.
template <class Value>
struct Mine {
    Value values[kItems<Value>];
};

template <class I, class T>
struct Rows {
    using Value = Carrier<I, T>;
    CsrSource<I, T> source;
    const std::int64_t* firsts;

    /// Loads the entries from `begin` on. In `scratch` it is marked where rows begin; an entry without a mark
    /// has the row of the last mark before it.
    __device__ void load(Mine<Value>& mine, std::int64_t number, std::int64_t begin, int count, int at,
                         void* scratch) const {
        constexpr int kMine = kItems<Value>;
        __shared__ I of_warps[kWarps];
        auto* const marks = static_cast<I*>(scratch);
        const int thread = static_cast<int>(threadIdx.x);
        const int lane = thread % kWarp;
        const int warp = thread / kWarp;
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
            const std::int64_t from = begin + at + i * kWarp;
            if (at + i * kWarp < count)
                mine.values[i] = {bytes_in<decltype(Value::value)>(source.values[from]), -1,
                                  source.columns[from]};
            marks[at + i * kWarp] = -1;
        }
        const std::int64_t first_row = firsts[number];
        const std::int64_t last_row = firsts[number + 1];
        __syncthreads();
        for (std::int64_t row = first_row + 1 + thread; row <= last_row; row += kThreads) {
            const std::int64_t place = source.pointers[row] - begin;
            if (place < count && source.pointers[row + 1] > source.pointers[row])
                marks[place] = static_cast<I>(row);
        }
        __syncthreads();
        I last = -1;
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
            const I mark = marks[at + i * kWarp];
            const unsigned before = __ballot_sync(~0U, mark >= 0) & ((2U << lane) - 1);
            const I found = __shfl_sync(~0U, mark, before == 0 ? lane : 31 - __clz(before));
            mine.values[i].row = before == 0 ? last : found;
            last = __shfl_sync(~0U, mine.values[i].row, kWarp - 1);
        }
        if (lane == 0) of_warps[warp] = last;
        __syncthreads();
        auto before = static_cast<I>(first_row);
        for (int w = 0; w < warp; ++w)
            if (of_warps[w] >= 0) before = of_warps[w];
#pragma unroll
        for (int i = 0; i < kMine; ++i)
            if (mine.values[i].row < 0) mine.values[i].row = before;
    }
};

template <class Value>
struct Moved {
    const Value* entries;

    __device__ void load(Mine<Value>& mine, std::int64_t, std::int64_t begin, int count, int at,
                         void*) const {
        std::int64_t row = 0;
        const EntrySource<decltype(Value::row), decltype(Value::value)> source{entries + begin};
#pragma unroll
        for (int i = 0; i < kItems<Value>; ++i)
            if (at + i * kWarp < count) mine.values[i] = source.entry(at + i * kWarp, row);
    }
};

// ---- Sinks

template <class Value>
struct MovedSink {
    static constexpr bool kCounts = false;
    Value* entries;

    __device__ void store(std::int64_t place, const Value& entry) const {
        EntrySink<decltype(Value::row), decltype(Value::value)>{entries}.store(place, entry);
    }
};

/// The result, whose columns have been counted.
template <class I, class T>
struct OnlySink {
    static constexpr bool kCounts = false;
    CsrSink<I, T> sink;

    __device__ void store(std::int64_t place, const Carrier<I, T>& entry) const {
        sink.rows[place] = static_cast<I>(entry.row);
        sink.values[place] = bytes_in<T>(entry.value);
    }
};

/// The result; lengths[c] becomes how many entries column c has.
template <class I, class T, class Place>
struct LastSink : OnlySink<I, T> {
    static constexpr bool kCounts = true;
    Place* lengths;
};

// ---- A step

/// How many entries of digit d are in the tiles before `number`, of which this one has `own`: told to later
/// ones.
template <class Place>
__device__ Place look_back(volatile Place* told, std::int64_t number, int digits, int d, Place own) {
    using Word = Told<Place>;
    Place before = 0;
    for (std::int64_t t = number - 1; t >= 0;) {
        Place seen[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) seen[k] = t >= k ? told[(t - k) * digits + d] : Place{Word::kAll};
        bool found = false;
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
            if (found || seen[k] == 0) break;
            before += seen[k] & Word::kCount;
            found = (seen[k] & Word::kAll) != 0;
            --t;
        }
        if (found) break;
    }
    told[number * digits + d] = Word::kAll | (before + own);
    return before;
}

/// How many entries of their digit come before those of a thread in its warp; counters[digit] becomes how
/// many the warp has. Lanes of equal digits find each other through a mask in memory, which is 0 before and
/// after.
template <class Value>
__device__ __forceinline__ void rank_in_warp(const int (&digits)[kItems<Value>],
                                             unsigned (&ranks)[kItems<Value>], int inside, unsigned* masks,
                                             std::uint16_t* counters) {
    const unsigned me = 1U << (threadIdx.x % kWarp);
#pragma unroll
    for (int i = 0; i < kItems<Value>; ++i) {
        const bool active = i * kWarp < inside;
        const int d = digits[i];
        if (active) atomicOr(masks + d, me);
        __syncwarp();
        const unsigned peers = masks[d];
        const unsigned before = counters[d];
        const unsigned lower = peers & (me - 1);
        ranks[i] = before + __popc(lower);
        __syncwarp();
        if (active && lower == 0) {
            masks[d] = 0;
            counters[d] = static_cast<std::uint16_t>(before + __popc(peers));
        }
        __syncwarp();
    }
}

template <class Value, class Place>
struct Shared {
    alignas(16) unsigned char tile[kTileBytes];
    unsigned masks[kWarps][kMostDigits];
    std::uint16_t counters[kWarps][kMostDigits];
    Place places[kMostDigits];  ///< of each digit, less its begin in the tile
    unsigned sums[kWarps];
    unsigned number;
};

/// Places the `count` entries of a tile, which is known where it is whole.
template <bool kWhole, class Value, class Source, class Sink, class Place>
__device__ __forceinline__ void place_tile(const Source& source, const Sink& sink, const Step& step,
                                           const unsigned long long* starts, volatile Place* told,
                                           std::int64_t number, int entries, Shared<Value, Place>& shared) {
    constexpr int kMine = kItems<Value>;
    const int count = kWhole ? kTile<Value> : entries;
    auto* const tile = reinterpret_cast<Value*>(shared.tile);
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % kWarp;
    const int warp = thread / kWarp;
    const int digits = step.digit.count();
    const int at = warp * kMine * kWarp + lane;
    Mine<Value> mine;
    source.load(mine, number, number * kTile<Value>, count, at, shared.tile);
    int found[kMine];
    unsigned ranks[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i)
        found[i] = at + i * kWarp < count ? step.digit.of(mine.values[i].column) : 0;
    rank_in_warp<Value>(found, ranks, count - at, shared.masks[warp], shared.counters[warp]);
    __syncthreads();

    // Where each digit begins in the tile, and each warp's part of it.
    unsigned own = 0;
    unsigned of_warps[kWarps];
    if (thread < digits) {
#pragma unroll
        for (int w = 0; w < kWarps; ++w) own += of_warps[w] = shared.counters[w][thread];
        told[number * digits + thread] = (number == 0 ? Told<Place>::kAll : Told<Place>::kOwn) | Place{own};
    }
    unsigned first = own;
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
        const unsigned other = __shfl_up_sync(~0U, first, distance);
        if (lane >= distance) first += other;
    }
    if (lane == kWarp - 1) shared.sums[warp] = first;
    __syncthreads();
    first -= own;
    for (int w = 0; w < warp; ++w) first += shared.sums[w];
    if (thread < digits) {
        unsigned sum = first;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            shared.counters[w][thread] = static_cast<std::uint16_t>(sum);
            sum += of_warps[w];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kMine; ++i)
        if (at + i * kWarp < count) tile[shared.counters[warp][found[i]] + ranks[i]] = mine.values[i];
    if (thread < digits) {
        const Place before = number == 0 ? 0 : look_back<Place>(told, number, digits, thread, own);
        shared.places[thread] = static_cast<Place>(starts[thread]) + before - first;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
        const int p = i * kThreads + thread;
        if (!Sink::kCounts && p >= count) continue;
        Value entry{};
        if (p < count) {
            entry = tile[p];
            const Place place = shared.places[step.digit.of(entry.column)] + static_cast<Place>(p);
            sink.store(static_cast<std::int64_t>(place), entry);
        }
        if constexpr (Sink::kCounts) {  // a run adds where it ends and takes off where it begins
            auto left = __shfl_up_sync(~0U, entry.column, 1);
            auto right = __shfl_down_sync(~0U, entry.column, 1);
            if (lane == 0 && p > 0 && p < count) left = tile[p - 1].column;
            if (lane == kWarp - 1 && p + 1 < count) right = tile[p + 1].column;
            const bool begins = p == 0 || left != entry.column;
            const bool ends = p == count - 1 || right != entry.column;
            if (p < count && (begins || ends))
                atomicAdd(sink.lengths + entry.column,
                          static_cast<Place>((ends ? p + 1 : 0) - (begins ? p : 0)));
        }
    }
}

/// starts[d] is where the entries of digit d begin. `told`, by tile and digit, and `drawn` are 0 before.
template <class Value, class Source, class Sink, class Place>
__global__ void __launch_bounds__(kThreads, kBlocks)
    step_kernel(Source source, Sink sink, Step step, const unsigned long long* starts, Place* told,
                unsigned* drawn) {
    __shared__ Shared<Value, Place> shared;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) shared.number = atomicAdd(drawn, 1U);
    for (int i = thread; i < kWarps * kMostDigits / 2; i += kThreads)
        reinterpret_cast<unsigned*>(shared.counters)[i] = 0;
    for (int i = thread; i < kWarps * kMostDigits; i += kThreads) shared.masks[0][i] = 0;
    __syncthreads();
    const std::int64_t number = shared.number;
    const std::int64_t rest = step.entries - number * kTile<Value>;
    if (rest >= kTile<Value>) {
        place_tile<true, Value>(source, sink, step, starts, told, number, kTile<Value>, shared);
    } else {
        place_tile<false, Value>(source, sink, step, starts, told, number, static_cast<int>(rest), shared);
    }
}

}  // namespace gpumat::transpose::gpu::sparse::sweep
