// reduce, GPU level `shuffle`: many elements a thread, warp shuffles, and the last block ends it.
//
// New: a thread adds up many elements in registers before it meets another, in words of 16 bytes of which
// four (of columns, eight) are on their way at a time. The 32 sums of a warp are combined by shuffles,
// without shared memory and barriers, and those of the warps once a block. One kernel does it all: the block
// that is the last to leave its partial result adds up all of them, in their order, whichever block it is. It
// removes idle threads, barriers and the passes over partial results.
//
// Rows: long ones are cut into parts for blocks, short ones are left to warps or parts of warps. Columns: a
// thread has a few neighbouring ones, the rows of threads walk down the matrix, and a second kernel combines
// the parts. Few columns without gaps are reduced as if several rows were one.
//
// Traffic: every element is read once. What limits it: device memory.
// Source: M. Harris, "Optimizing Parallel Reduction in CUDA" (2007), reductions 5 to 7; the last block,
// CUDA's threadFenceReduction sample; shuffles, J. Luitjens, "Faster Parallel Reductions on Kepler" (2014).
//
// Parts depend on the shape and the device, never on which block is the first: the bits of a result are the
// same in every run on one device.
#include <algorithm>
#include <memory>

#include "kernels/common/access.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/gpu/levels.hpp"

namespace gpumat::reduce::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kInFlight = 4;  // words that a thread waits for at a time
constexpr int kWordBytes = 16;
constexpr unsigned kEveryLane = 0xffffffffU;
constexpr std::int64_t kMostBlocks = 1 << 30;
// Rows of at least so many bytes are work for blocks, shorter ones for warps.
constexpr std::int64_t kLongRowBytes = 32 * 1024;
// A part has at least so many bytes: less is not worth its end.
constexpr std::int64_t kLeastPartBytes = 16 * 1024;

constexpr std::int64_t pieces(std::int64_t count, std::int64_t size) {
    return (count + size - 1) / size;
}

// ---- Totals as words

/// A total as words that shuffles move and that memory holds.
template <class Total>
struct Words {
    static constexpr int kCount = static_cast<int>((sizeof(Total) + 3) / 4);
    unsigned words[kCount];
};

template <class Total>
__device__ __forceinline__ Words<Total> to_words(const Total& total) {
    Words<Total> packed{};
    memcpy(packed.words, &total, sizeof total);
    return packed;
}
template <class Total>
__device__ __forceinline__ Total from_words(const Words<Total>& packed) {
    Total total;
    memcpy(&total, packed.words, sizeof total);
    return total;
}

/// Reads what another block wrote: from L2, for L1 may hold what was there before.
template <class Total>
__device__ __forceinline__ Total load_total(const Words<Total>* at) {
    Words<Total> packed;
#pragma unroll
    for (int i = 0; i < Words<Total>::kCount; ++i) packed.words[i] = __ldcg(at->words + i);
    return from_words(packed);
}

/// Lane i of each `lanes` neighbours takes the total of lane i + lanes/2, then of lane i + lanes/4 …: lane 0
/// has them all. `lanes` is a power of two; all lanes of the warp take part.
template <class Total>
__device__ __forceinline__ void combine_lanes(Total& total, int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
        Words<Total> packed = to_words(total);
#pragma unroll
        for (int i = 0; i < Words<Total>::kCount; ++i)
            packed.words[i] = __shfl_down_sync(kEveryLane, packed.words[i], distance, lanes);
        total.take(from_words(packed));
    }
}

/// Thread 0 gets the total of all threads of the block; all of them call it.
template <class Total>
__device__ void combine_block(Total& total) {
    __shared__ Words<Total> of_warps[kWarps];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    combine_lanes(total, kWarp);
    __syncthreads();  // what the last call left in shared memory has been read
    if (lane == 0) of_warps[warp] = to_words(total);
    __syncthreads();  // every warp's total is there before they are combined
    if (warp != 0) return;
    total = lane < kWarps ? from_words(of_warps[lane]) : Total{};
    combine_lanes(total, kWarps);
}

// ---- Elements

/// Adds the elements of a word to a run.
template <class R, class T>
__device__ __forceinline__ void add_word(const uint4& word, ScalarRun<R>& run) {
    constexpr int kElements = kWordBytes / static_cast<int>(sizeof(T));
    T elements[kElements];
    memcpy(static_cast<void*>(elements), &word, sizeof word);
#pragma unroll
    for (int i = 0; i < kElements; ++i) run.add(element_at<R>(elements + i));
}

/// The elements [0, count) at `from`, shared out among `threads` threads of which this is number `thread`.
/// Words of 16 bytes where they are aligned, single elements before and after.
template <class R, class T>
__device__ __forceinline__ void add_elements(const T* from, std::int64_t count, int thread, int threads,
                                             typename R::Total& total) {
    constexpr int kElements = kWordBytes / static_cast<int>(sizeof(T));
    constexpr std::int64_t kSweeps = kLongestRun / (kElements * kInFlight) - 1;  // and what is left over
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    const auto skew = static_cast<std::int64_t>((kWordBytes - address % kWordBytes) % kWordBytes / sizeof(T));
    const std::int64_t head = count < skew ? count : skew;
    const std::int64_t words = (count - head) / kElements;
    const std::int64_t tail = head + words * kElements;
    const auto* word = reinterpret_cast<const uint4*>(from + head);
    const std::int64_t step = static_cast<std::int64_t>(threads) * kInFlight;
    std::int64_t i = 0;
    while (i + step <= words) {
        ScalarRun<R> run;
        for (std::int64_t sweep = 0; sweep < kSweeps && i + step <= words; ++sweep, i += step) {
            uint4 loaded[kInFlight];
#pragma unroll
            for (int k = 0; k < kInFlight; ++k)
                loaded[k] = load_word<Cache::once>(word + i + k * threads + thread);
#pragma unroll
            for (int k = 0; k < kInFlight; ++k) add_word<R, T>(loaded[k], run);
        }
        total.take(run);
    }
    ScalarRun<R> run;
    for (i += thread; i < words; i += threads) add_word<R, T>(load_word<Cache::once>(word + i), run);
    for (std::int64_t j = thread; j < head; j += threads) run.add(element_at<R>(from + j));
    for (std::int64_t j = tail + thread; j < count; j += threads) run.add(element_at<R>(from + j));
    total.take(run);
}

/// Where results go: to `out`, or as totals, one after the other, to `totals`.
template <class R>
struct Target {
    Words<typename R::Total>* totals;  ///< null: finished results
    typename R::Result* out;
    std::int64_t out_step;
    std::int64_t elements;  ///< of each result

    __device__ void store(std::int64_t segment, const typename R::Total& total) const {
        if (totals != nullptr) {
            totals[segment] = to_words(total);
        } else {
            out[segment * out_step] = R::finish(total, elements);
        }
    }
};

// ---- Long rows

/// Rows of `length` elements, each cut into `parts` of `chunk`; a block takes a part.
struct Rows {
    std::int64_t count;
    std::int64_t length;
    std::int64_t pitch;
    std::int64_t parts;
    std::int64_t chunk;
};

/// The block that is the last of its row to leave a partial result combines those of the row.
template <class R, class T>
__global__ void __launch_bounds__(kThreads)
    long_rows_kernel(const T* __restrict__ in, Rows rows, Words<typename R::Total>* partials,
                     unsigned* tickets, Target<R> target) {
    using Total = typename R::Total;
    __shared__ bool last;
    const int t = static_cast<int>(threadIdx.x);
    for (std::int64_t item = blockIdx.x; item < rows.count * rows.parts; item += gridDim.x) {
        const std::int64_t row = item / rows.parts;
        const std::int64_t begin = item % rows.parts * rows.chunk;
        const std::int64_t count = min(rows.chunk, rows.length - begin);
        Total total;
        add_elements<R>(in + row * rows.pitch + begin, count, t, kThreads, total);
        combine_block(total);
        if (rows.parts == 1) {
            if (t == 0) target.store(row, total);
            continue;
        }
        if (t == 0) {
            partials[item] = to_words(total);
            __threadfence();  // the partial result is seen by whoever sees the ticket
            last = atomicAdd(tickets + row, 1U) == static_cast<unsigned>(rows.parts - 1);
        }
        __syncthreads();  // all threads know whether this block is the last
        if (!last) continue;
        __threadfence();  // the others' partial results are seen
        Total all;
        for (std::int64_t part = t; part < rows.parts; part += kThreads)
            all.take(load_total(partials + row * rows.parts + part));
        combine_block(all);
        if (t != 0) continue;
        target.store(row, all);
        tickets[row] = 0;  // for the next run
    }
}

// ---- Short rows

/// `lanes` neighbouring lanes take a row.
template <class R, class T>
__global__ void __launch_bounds__(kThreads)
    short_rows_kernel(const T* __restrict__ in, std::int64_t count, std::int64_t length, std::int64_t pitch,
                      int lanes, Target<R> target) {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const std::int64_t at_once = kThreads / lanes;
    for (std::int64_t top = blockIdx.x * at_once; top < count; top += gridDim.x * at_once) {
        const std::int64_t row = top + static_cast<int>(threadIdx.x) / lanes;
        typename R::Total total;
        if (row < count) add_elements<R>(in + row * pitch, length, lane, lanes, total);
        combine_lanes(total, lanes);
        if (lane == 0 && row < count) target.store(row, total);
    }
}

// ---- Columns

constexpr int kRowsOfThreads = kWarps;
constexpr int kRowsInFlight = 8;
constexpr int kLastInFlight = (kRowsInFlight - 1) * kRowsOfThreads;
constexpr int kCombiningRows = 32;  // of threads of the kernel that combines parts

/// Columns a thread: what one word holds, but no more than have room for their totals in registers.
template <class R, class T>
constexpr int columns_of() {
    constexpr int kMostTotalBytes = 128;
    const int in_word = kWordBytes / static_cast<int>(sizeof(T));
    const int fit = std::max(1, kMostTotalBytes / static_cast<int>(sizeof(typename R::Total)));
    int columns = 1;
    while (2 * columns <= std::min(in_word, fit)) columns *= 2;
    return columns;
}

/// A matrix whose columns are reduced: `limit` elements from the first one on are there. Where several rows
/// of few columns are taken as one, the last row may end early.
struct Columns {
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t pitch;
    std::int64_t limit;
    std::int64_t parts;
    std::int64_t chunk;   ///< rows of a part
    std::int64_t strips;  ///< of 32 threads side by side
};

/// V neighbouring elements of a row, of which those are added that are there.
template <class R, class T, int V>
__device__ __forceinline__ void add_columns(const T* __restrict__ in, std::int64_t row, std::int64_t col,
                                            const Columns& matrix, ScalarRun<R> (&runs)[V]) {
    const std::int64_t offset = row * matrix.pitch + col;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (col + v < matrix.cols && offset + v < matrix.limit) runs[v].add(element_at<R>(in + offset + v));
    }
}

/// V neighbouring elements, as a word, of each of kRowsInFlight rows of which the thread takes every
/// kRowsOfThreads-th. All are on their way before the first is added.
template <class R, class T, int V>
__device__ __forceinline__ void add_words(const T* __restrict__ in, std::int64_t pitch,
                                          ScalarRun<R> (&runs)[V]) {
    using Word = typename WordOf<V* static_cast<int>(sizeof(T))>::type;
    Word loaded[kRowsInFlight];
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k)
        loaded[k] = load_word<Cache::once>(reinterpret_cast<const Word*>(in + k * kRowsOfThreads * pitch));
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) {
        T elements[V];
        memcpy(static_cast<void*>(elements), loaded + k, sizeof(Word));
#pragma unroll
        for (int v = 0; v < V; ++v) runs[v].add(element_at<R>(elements + v));
    }
}

/// Thread (x, y) of a block takes V columns from (strip · 32 + x) · V on, and every kRowsOfThreads-th row of
/// the part from y on. Leaves totals[part · cols + column].
template <class R, class T, int V>
__global__ void __launch_bounds__(kThreads)
    columns_kernel(const T* __restrict__ in, Columns matrix, bool aligned, Words<typename R::Total>* totals) {
    using Total = typename R::Total;
    __shared__ Words<Total> shared[kRowsOfThreads][kWarp];
    const int x = static_cast<int>(threadIdx.x) % kWarp;
    const int y = static_cast<int>(threadIdx.x) / kWarp;
    for (std::int64_t item = blockIdx.x; item < matrix.strips * matrix.parts; item += gridDim.x) {
        const std::int64_t part = item / matrix.strips;
        const std::int64_t col = (item % matrix.strips * kWarp + x) * V;
        const std::int64_t begin = part * matrix.chunk + y;
        const std::int64_t end = min(matrix.rows, (part + 1) * matrix.chunk);
        const bool whole = aligned && col + V <= matrix.cols;
        Total mine[V];
        std::int64_t row = begin;
        while (row < end && col < matrix.cols) {
            ScalarRun<R> runs[V];
            const std::int64_t stop = min(end, row + (kLongestRun - kRowsInFlight) * kRowsOfThreads);
            for (; whole && row + kLastInFlight < stop &&
                   (row + kLastInFlight) * matrix.pitch + col + V <= matrix.limit;
                 row += kRowsInFlight * kRowsOfThreads)
                add_words<R, T, V>(in + row * matrix.pitch + col, matrix.pitch, runs);
#pragma unroll 4
            for (; row < stop; row += kRowsOfThreads) add_columns<R, T, V>(in, row, col, matrix, runs);
#pragma unroll
            for (int v = 0; v < V; ++v) mine[v].take(runs[v]);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            shared[y][x] = to_words(mine[v]);
            __syncthreads();  // the column's totals are there before they are combined
            if (y == 0 && col + v < matrix.cols) {
                for (int other = 1; other < kRowsOfThreads; ++other)
                    mine[v].take(from_words(shared[other][x]));
                totals[part * matrix.cols + col + v] = to_words(mine[v]);
            }
            __syncthreads();  // they are read before the next column's overwrite them
        }
    }
}

/// Thread (x, y) combines every kCombiningRows-th part of a column from y on, and row 0 those of the block.
template <class R>
__global__ void __launch_bounds__(kWarp* kCombiningRows)
    combine_kernel(const Words<typename R::Total>* __restrict__ totals, std::int64_t parts, std::int64_t cols,
                   Target<R> target) {
    using Total = typename R::Total;
    __shared__ Words<Total> shared[kCombiningRows][kWarp];
    const int x = static_cast<int>(threadIdx.x) % kWarp;
    const int y = static_cast<int>(threadIdx.x) / kWarp;
    for (std::int64_t left = static_cast<std::int64_t>(blockIdx.x) * kWarp; left < cols;
         left += static_cast<std::int64_t>(gridDim.x) * kWarp) {
        const std::int64_t col = left + x;
        Total total;
        if (col < cols) {
#pragma unroll 4
            for (std::int64_t part = y; part < parts; part += kCombiningRows)
                total.take(load_total(totals + part * cols + col));
        }
        shared[y][x] = to_words(total);
        __syncthreads();  // every row's totals are there before they are combined
        if (y == 0 && col < cols) {
            for (int other = 1; other < kCombiningRows; ++other) total.take(from_words(shared[other][x]));
            target.store(col, total);
        }
        __syncthreads();  // they are read before the next columns' overwrite them
    }
}

// ---- Launches

unsigned grid_of(std::int64_t blocks) {
    return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks));
}

/// The blocks of a kernel that run at the same time, times `waves`.
std::int64_t wanted_blocks(const void* kernel, const Problem& problem, const Device& device) {
    int resident = 0;
    GPUMAT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads, 0));
    const int waves = parameter_number(shuffle_parameters(), problem, "waves");
    return static_cast<std::int64_t>(resident) * device.gpu->info().multiprocessors * waves;
}

/// Memory that is 0, or holds anything, for as long as the launch.
std::shared_ptr<DeviceMemory> workspace(const Device& device, std::int64_t bytes) {
    const auto memory = std::make_shared<DeviceMemory>(device.gpu->allocate(static_cast<std::size_t>(bytes)));
    if (bytes > 0) {
        device.gpu->fill(memory->data(), 0, memory->bytes());
        device.gpu->synchronize();
    }
    return memory;
}

/// The matrix as rows to be reduced one by one.
struct RowProblem {
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t pitch;
};

template <class R, class T>
Launch launch_long_rows(const Problem& problem, const RowProblem& matrix, const T* in,
                        const Target<R>& target, const Device& device) {
    using Packed = Words<typename R::Total>;
    const auto* kernel = reinterpret_cast<const void*>(long_rows_kernel<R, T>);
    const std::int64_t wanted = wanted_blocks(kernel, problem, device);
    const std::int64_t most =
        std::max<std::int64_t>(1, matrix.cols * static_cast<std::int64_t>(sizeof(T)) / kLeastPartBytes);
    const std::int64_t asked =
        std::clamp<std::int64_t>(wanted / std::max<std::int64_t>(1, matrix.rows), 1, most);
    // Parts are whole sweeps of a block over words, so that all of them are aligned as the row is.
    constexpr std::int64_t kSweep = kThreads * kInFlight * kWordBytes / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t chunk = std::max(kSweep, pieces(pieces(matrix.cols, asked), kSweep) * kSweep);
    const Rows rows = {.count = matrix.rows,
                       .length = matrix.cols,
                       .pitch = matrix.pitch,
                       .parts = std::max<std::int64_t>(1, pieces(matrix.cols, chunk)),
                       .chunk = chunk};
    const bool cut = rows.parts > 1;
    const std::int64_t partial_bytes =
        cut ? rows.count * rows.parts * static_cast<std::int64_t>(sizeof(Packed)) : 0;
    const std::int64_t ticket_bytes = cut ? rows.count * static_cast<std::int64_t>(sizeof(unsigned)) : 0;
    const auto memory = workspace(device, partial_bytes + ticket_bytes);
    auto* partials = static_cast<Packed*>(memory->data());
    auto* tickets = reinterpret_cast<unsigned*>(static_cast<std::byte*>(memory->data()) + partial_bytes);
    const Geometry geometry = {.grid = dim3(grid_of(rows.count * rows.parts)), .block = dim3(kThreads)};
    Launch launch = {.level = "shuffle", .run = [=](Stream stream) {
                         (void)memory;  // lives as long as the launch
                         long_rows_kernel<R, T><<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(
                             in, rows, partials, tickets, target);
                         GPUMAT_CUDA(cudaGetLastError());
                     }};
    launch.details = launch_details(kernel, geometry);
    launch.details.emplace_back("parts", std::to_string(rows.parts));
    launch.workspace_bytes = static_cast<std::uint64_t>(partial_bytes + ticket_bytes);
    return launch;
}

template <class R, class T>
Launch launch_short_rows(const RowProblem& matrix, const T* in, const Target<R>& target) {
    const std::int64_t words = pieces(matrix.cols * static_cast<std::int64_t>(sizeof(T)), kWordBytes);
    int lanes = 1;
    while (lanes < kWarp && lanes < words) lanes *= 2;
    const Geometry geometry = {.grid = dim3(grid_of(pieces(matrix.rows, kThreads / lanes))),
                               .block = dim3(kThreads)};
    Launch launch = {.level = "shuffle", .run = [=](Stream stream) {
                         short_rows_kernel<R, T><<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(
                             in, matrix.rows, matrix.cols, matrix.pitch, lanes, target);
                         GPUMAT_CUDA(cudaGetLastError());
                     }};
    launch.details = launch_details(reinterpret_cast<const void*>(short_rows_kernel<R, T>), geometry);
    launch.details.emplace_back("lanes", std::to_string(lanes));
    return launch;
}

template <class R, class T>
Launch launch_rows(const Problem& problem, const RowProblem& matrix, const T* in, const Target<R>& target,
                   const Device& device) {
    if (matrix.cols * static_cast<std::int64_t>(sizeof(T)) >= kLongRowBytes || matrix.rows == 1)
        return launch_long_rows(problem, matrix, in, target, device);
    return launch_short_rows(matrix, in, target);
}

template <class R>
void run_combine(const Words<typename R::Total>* totals, std::int64_t parts, std::int64_t cols,
                 const Target<R>& target, Stream stream) {
    combine_kernel<R><<<grid_of(pieces(cols, kWarp)), kWarp * kCombiningRows, 0, cuda_stream(stream)>>>(
        totals, parts, cols, target);
    GPUMAT_CUDA(cudaGetLastError());
}

/// All elements of a matrix with gaps: its rows, then their totals.
template <class R, class T>
Launch launch_gapped(const Problem& problem, const Operands& operands, const Target<R>& target,
                     const Device& device) {
    using Packed = Words<typename R::Total>;
    const auto bytes = problem.m * static_cast<std::int64_t>(sizeof(Packed));
    const auto memory = workspace(device, bytes);
    auto* totals = static_cast<Packed*>(memory->data());
    const RowProblem matrix = {problem.m, problem.n, operands.a.pitch};
    Launch rows =
        launch_rows<R>(problem, matrix, operands.a.as<T>(), Target<R>{totals, nullptr, 0, 0}, device);
    rows.run = [=, first = rows.run, count = problem.m](Stream stream) {
        first(stream);
        (void)memory;
        run_combine(totals, count, 1, target, stream);
    };
    rows.workspace_bytes += static_cast<std::uint64_t>(bytes);
    return rows;
}

template <class R, class T>
Launch launch_columns(const Problem& problem, const Operands& operands, const Target<R>& target,
                      const Device& device) {
    constexpr int V = columns_of<R, T>();
    using Packed = Words<typename R::Total>;
    const auto* kernel = reinterpret_cast<const void*>(columns_kernel<R, T, V>);
    const std::int64_t pitch = operands.a.pitch;
    // As many rows side by side as it takes to give every lane columns.
    const bool folds = pitch == problem.n && problem.n < kWarp * V;
    const std::int64_t fold =
        folds ? std::clamp<std::int64_t>(kWarp * V / problem.n, 1, std::max<std::int64_t>(1, problem.m)) : 1;
    Columns matrix = {.rows = pieces(problem.m, fold),
                      .cols = problem.n * fold,
                      .pitch = pitch * fold,
                      .limit = problem.m == 0 ? 0 : (problem.m - 1) * pitch + problem.n,
                      .parts = 1,
                      .chunk = 1,
                      .strips = pieces(problem.n * fold, kWarp * V)};
    const std::int64_t least_rows = kRowsOfThreads * kRowsInFlight;
    const std::int64_t wanted =
        std::max<std::int64_t>(1, wanted_blocks(kernel, problem, device) / matrix.strips);
    matrix.chunk = std::max(least_rows, pieces(matrix.rows, wanted));
    matrix.parts = std::max<std::int64_t>(1, pieces(matrix.rows, matrix.chunk));
    const auto address = reinterpret_cast<std::uintptr_t>(operands.a.data);
    constexpr std::int64_t kBytes = V * static_cast<std::int64_t>(sizeof(T));
    const bool aligned = address % kBytes == 0 && matrix.pitch % V == 0;
    const auto bytes = matrix.parts * matrix.cols * static_cast<std::int64_t>(sizeof(Packed));
    const auto memory = workspace(device, bytes);
    auto* totals = static_cast<Packed*>(memory->data());
    const Geometry geometry = {.grid = dim3(grid_of(matrix.strips * matrix.parts)), .block = dim3(kThreads)};
    Launch launch = {
        .level = "shuffle", .run = [=, in = operands.a.as<T>(), cols = problem.n](Stream stream) {
            (void)memory;  // lives as long as the launch
            columns_kernel<R, T, V>
                <<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(in, matrix, aligned, totals);
            GPUMAT_CUDA(cudaGetLastError());
            // Columns of rows that were side by side follow each other like those of parts.
            run_combine(totals, matrix.parts * fold, cols, target, stream);
        }};
    launch.details = launch_details(kernel, geometry);
    launch.details.emplace_back("parts", std::to_string(matrix.parts * fold));
    launch.workspace_bytes = static_cast<std::uint64_t>(bytes);
    return launch;
}

template <class R, class T>
Launch launch(const Problem& problem, const Operands& operands, const Device& device) {
    using Packed = Words<typename R::Total>;
    static_assert(sizeof(Packed) == sizeof(typename R::Total));
    const Axis axis = axis_of(problem);
    const Target<R> target = {.totals = problem.unfinished ? operands.c.as<Packed>() : nullptr,
                              .out = operands.c.as<typename R::Result>(),
                              .out_step = result_step(problem, operands.c),
                              .elements = elements_of(problem)};
    if (axis == Axis::columns) {
        if (problem.n == 0) return {.level = "shuffle", .run = [](Stream) {}};
        return launch_columns<R, T>(problem, operands, target, device);
    }
    RowProblem matrix = {problem.m, problem.n, operands.a.pitch};
    if (axis == Axis::all && (is_contiguous(operands.a) || problem.n == 0)) {  // one row
        matrix = {1, problem.m * problem.n, 0};
    } else if (axis == Axis::all) {
        return launch_gapped<R, T>(problem, operands, target, device);
    }
    return launch_rows<R>(problem, matrix, operands.a.as<T>(), target, device);
}

}  // namespace

Launch prepare_shuffle(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_reducer(
        problem, [&]<class R, class T>(R, TypeTag<T>) { return launch<R, T>(problem, operands, device); });
}

}  // namespace gpumat::reduce::gpu
