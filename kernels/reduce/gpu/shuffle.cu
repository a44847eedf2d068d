// reduce, GPU level `shuffle`: many elements a thread, warp shuffles, and the last block ends it.
//
// New: a thread adds up many elements in registers before it meets another, in words of 16 bytes of which
// eight are on their way at a time. The 32 sums of a warp are combined by shuffles,
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
constexpr int kInFlight = 8;  // words that a thread waits for at a time
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

/// Thread 0 gets the total of the first lanes of all warps of the block; all threads call it.
template <class Total>
__device__ __forceinline__ void combine_warps(Total& total) {
    __shared__ Words<Total> of_warps[kWarps];
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    __syncthreads();  // what the last call left in shared memory has been read
    if (lane == 0) of_warps[warp] = to_words(total);
    __syncthreads();  // every warp's total is there before they are combined
    if (warp != 0) return;
    total = lane < kWarps ? from_words(of_warps[lane]) : Total{};
    combine_lanes(total, kWarps);
}

/// Passes each element of a word of `BYTES` through the mirror: its masks repeat after 8 bytes.
template <class A, class Word>
__device__ __forceinline__ void mirror_word(Word& word, const Mirror& mirror) {
    if constexpr (kMirrored<A> && sizeof(Word) <= 8) {
        word = mirror.of(word);
    } else if constexpr (kMirrored<A>) {
        uint2 halves[2];
        memcpy(halves, &word, sizeof word);
        for (uint2& half : halves) half = mirror.of(half);
        memcpy(&word, halves, sizeof word);
    }
}

// ---- Elements

/// Adds the elements of a word to a run.
template <class A>
__device__ __forceinline__ void add_word(uint4 word, const Mirror& mirror, ScalarRun<A>& run) {
    using T = typename A::Element;
    constexpr int kElements = kWordBytes / static_cast<int>(sizeof(T));
    T elements[kElements];
    mirror_word<A>(word, mirror);
    memcpy(static_cast<void*>(elements), &word, sizeof word);
#pragma unroll
    for (int i = 0; i < kElements; ++i) run.add(element_of<A>(elements + i));
}

/// The elements [0, count) at `from`, shared out among `threads` threads of which this is number `thread`.
/// Words of 16 bytes where they are aligned, single elements before and after.
template <class A>
__device__ __forceinline__ void add_elements(const typename A::Element* from, std::int64_t count, int thread,
                                             int threads, const Mirror& mirror, typename A::Total& total) {
    constexpr int kElements = kWordBytes / static_cast<int>(sizeof(typename A::Element));
    constexpr std::int64_t kSweeps = kLongestRun / (kElements * kInFlight) - 1;  // and what is left over
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    const auto skew = static_cast<std::int64_t>((kWordBytes - address % kWordBytes) % kWordBytes /
                                                sizeof(typename A::Element));
    const std::int64_t head = count < skew ? count : skew;
    const std::int64_t words = (count - head) / kElements;
    const std::int64_t tail = head + words * kElements;
    const auto* word = reinterpret_cast<const uint4*>(from + head);
    const std::int64_t step = static_cast<std::int64_t>(threads) * kInFlight;
    std::int64_t i = 0;
    while (i + step <= words) {
        ScalarRun<A> run;
        for (std::int64_t sweep = 0; sweep < kSweeps && i + step <= words; ++sweep, i += step) {
            uint4 loaded[kInFlight];
#pragma unroll
            for (int k = 0; k < kInFlight; ++k)
                loaded[k] = load_word<Cache::once>(word + i + k * threads + thread);
#pragma unroll
            for (int k = 0; k < kInFlight; ++k) add_word<A>(loaded[k], mirror, run);
        }
        total.take(run);
    }
    ScalarRun<A> run;
    for (i += thread; i < words; i += threads) add_word<A>(load_word<Cache::once>(word + i), mirror, run);
    // The single elements before and after, as if they were one row.
    for (std::int64_t j = thread; j < head; j += threads) run.add(element_at<A>(from + j, mirror));
    for (std::int64_t j = tail + thread; j < count; j += threads) run.add(element_at<A>(from + j, mirror));
    total.take(run);
}

// ---- Rows

/// Rows of `length` elements, each cut into `parts` of `chunk`. `threads` neighbouring threads take a part: a
/// block, or a warp or less of it.
struct Rows {
    std::int64_t count;
    std::int64_t length;
    std::int64_t pitch;
    std::int64_t parts;
    std::int64_t chunk;
    int threads;
};

/// The block that is the last of its row to leave a partial result combines those of the row. Only blocks
/// have rows that are cut. How many threads take a row is known to the compiler where it is a block: the
/// addresses of the words on their way then differ by constants.
template <class A, bool kByBlock>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const void* __restrict__ in, Rows rows, void* partials, unsigned* tickets, Results results) {
    using Total = typename A::Total;
    __shared__ bool last;
    auto* left = static_cast<Words<Total>*>(partials);
    const int t = static_cast<int>(threadIdx.x);
    const int threads = kByBlock ? kThreads : rows.threads;
    const int thread = t % threads;
    const std::int64_t at_once = kThreads / threads;
    const std::int64_t items = rows.count * rows.parts;
    for (std::int64_t first = blockIdx.x * at_once; first < items; first += gridDim.x * at_once) {
        const std::int64_t item = first + t / threads;
        const std::int64_t row = rows.parts == 1 ? item : item / rows.parts;
        const std::int64_t begin = (item - row * rows.parts) * rows.chunk;
        Total total;
        if (item < items)
            add_elements<A>(static_cast<const typename A::Element*>(in) + row * rows.pitch + begin,
                            min(rows.chunk, rows.length - begin), thread, threads, results.ending.mirror,
                            total);
        combine_lanes(total, kByBlock ? kWarp : threads);
        if constexpr (kByBlock) combine_warps(total);
        if (kByBlock && rows.parts > 1) {
            if (t == 0) {
                left[item] = to_words(total);
                __threadfence();  // the partial result is seen by whoever sees the ticket
                last = atomicAdd(tickets + row, 1U) == static_cast<unsigned>(rows.parts - 1);
            }
            __syncthreads();  // all threads know whether this block is the last
            if (!last) continue;
            __threadfence();  // the others' partial results are seen
            total = Total{};
            for (std::int64_t part = t; part < rows.parts; part += kThreads)
                total.take(load_total(left + row * rows.parts + part));
            combine_lanes(total, kWarp);
            combine_warps(total);
            if (t == 0) tickets[row] = 0;  // for the next run
        }
        if (thread == 0 && item < items) results.store(row, total);
    }
}

// ---- Columns

constexpr int kRowsOfThreads = kWarps;
constexpr int kRowsInFlight = 8;
// Blocks that a multiprocessor has room for at least: more registers are better used for words on their way.
constexpr int kColumnBlocks = 2;
constexpr int kLastInFlight = (kRowsInFlight - 1) * kRowsOfThreads;
constexpr int kCombiningRows = 32;  // of threads of the kernel that combines parts

/// Columns a thread: what one word holds, but no more than have room for their totals in registers.
template <class A>
constexpr int columns_of() {
    constexpr int kMostTotalBytes = 128;
    const int in_word = kWordBytes / static_cast<int>(sizeof(typename A::Element));
    const int fit = std::max(1, kMostTotalBytes / static_cast<int>(sizeof(typename A::Total)));
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
template <class A, int V>
__device__ __forceinline__ void add_columns(const typename A::Element* in, std::int64_t row, std::int64_t col,
                                            const Columns& matrix, const Mirror& mirror,
                                            ScalarRun<A> (&runs)[V]) {
    const std::int64_t offset = row * matrix.pitch + col;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        if (col + v < matrix.cols && offset + v < matrix.limit)
            runs[v].add(element_at<A>(in + offset + v, mirror));
    }
}

/// V neighbouring elements, as a word, of each of kRowsInFlight rows of which the thread takes every
/// kRowsOfThreads-th. All are on their way before the first is added.
template <class A, int V>
__device__ __forceinline__ void add_words(const typename A::Element* in, std::int64_t pitch,
                                          const Mirror& mirror, ScalarRun<A> (&runs)[V]) {
    using T = typename A::Element;
    using Word = typename WordOf<V* static_cast<int>(sizeof(T))>::type;
    Word loaded[kRowsInFlight];
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k)
        loaded[k] = load_word<Cache::once>(reinterpret_cast<const Word*>(in + k * kRowsOfThreads * pitch));
#pragma unroll
    for (int k = 0; k < kRowsInFlight; ++k) {
        T elements[V];
        mirror_word<A>(loaded[k], mirror);
        memcpy(static_cast<void*>(elements), loaded + k, sizeof(Word));
#pragma unroll
        for (int v = 0; v < V; ++v) runs[v].add(element_of<A>(elements + v));
    }
}

/// Thread (x, y) of a block takes V columns from (strip · 32 + x) · V on, and every kRowsOfThreads-th row of
/// the part from y on. Leaves totals[part · cols + column].
template <class A>
__global__ void __launch_bounds__(kThreads, kColumnBlocks)
    columns_kernel(const void* __restrict__ elements, Columns matrix, bool aligned, void* totals,
                   Mirror mirror) {
    using Total = typename A::Total;
    constexpr int V = columns_of<A>();
    constexpr int kUnrolled = std::clamp(16 / V, 1, 4);  // rows of single elements on their way
    __shared__ Words<Total> shared[kRowsOfThreads][kWarp];
    const auto* in = static_cast<const typename A::Element*>(elements);
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
            ScalarRun<A> runs[V];
            const std::int64_t stop = min(end, row + (kLongestRun - kRowsInFlight) * kRowsOfThreads);
            for (; whole && row + kLastInFlight < stop &&
                   (row + kLastInFlight) * matrix.pitch + col + V <= matrix.limit;
                 row += kRowsInFlight * kRowsOfThreads)
                add_words<A, V>(in + row * matrix.pitch + col, matrix.pitch, mirror, runs);
#pragma unroll kUnrolled
            for (; row < stop; row += kRowsOfThreads) add_columns<A, V>(in, row, col, matrix, mirror, runs);
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
                static_cast<Words<Total>*>(totals)[part * matrix.cols + col + v] = to_words(mine[v]);
            }
            __syncthreads();  // they are read before the next column's overwrite them
        }
    }
}

/// Thread (x, y) combines every kCombiningRows-th part of a column from y on, and row 0 those of the block.
template <class Total>
__global__ void __launch_bounds__(kWarp* kCombiningRows)
    combine_kernel(const void* __restrict__ totals, std::int64_t parts, std::int64_t cols, Results results) {
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
                total.take(load_total(static_cast<const Words<Total>*>(totals) + part * cols + col));
        }
        shared[y][x] = to_words(total);
        __syncthreads();  // every row's totals are there before they are combined
        if (y == 0 && col < cols) {
            for (int other = 1; other < kCombiningRows; ++other) total.take(from_words(shared[other][x]));
            results.store(col, total);
        }
        __syncthreads();  // they are read before the next columns' overwrite them
    }
}

// ---- Launches

/// The kernels of an accumulator, and sizes in bytes.
struct Kernels {
    void (*long_rows)(const void* in, Rows rows, void* partials, unsigned* tickets, Results results);
    void (*short_rows)(const void* in, Rows rows, void* partials, unsigned* tickets, Results results);
    void (*columns)(const void* in, Columns matrix, bool aligned, void* totals, Mirror mirror);
    void (*combine)(const void* totals, std::int64_t parts, std::int64_t cols, Results results);
    std::int64_t element;
    std::int64_t total;
    std::int64_t columns_a_thread;
};

/// What the launches of one problem share.
struct Job {
    Kernels kernels;
    const Problem& problem;
    const Operand& a;
    const Device& device;
    Results results;

    /// The blocks of a kernel that run at the same time, times `waves`.
    template <class Kernel>
    [[nodiscard]] std::int64_t wanted_blocks(Kernel kernel) const {
        int resident = 0;
        GPUMAT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &resident, reinterpret_cast<const void*>(kernel), kThreads, 0));
        const int waves = parameter_number(shuffle_parameters(), problem, "waves");
        return static_cast<std::int64_t>(resident) * device.gpu->info().multiprocessors * waves;
    }
    /// Memory that is 0, or holds anything, for as long as the launch.
    [[nodiscard]] std::shared_ptr<DeviceMemory> workspace(std::int64_t bytes) const {
        const auto memory =
            std::make_shared<DeviceMemory>(device.gpu->allocate(static_cast<std::size_t>(bytes)));
        if (bytes > 0) {
            device.gpu->fill(memory->data(), 0, memory->bytes());
            device.gpu->synchronize();
        }
        return memory;
    }
};

unsigned grid_of(std::int64_t blocks) {
    return static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks));
}

/// The matrix as rows to be reduced one by one.
struct RowProblem {
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t pitch;
};

/// Long rows are cut into parts for blocks, short ones are left to a warp or less.
Rows rows_of(const Job& job, const RowProblem& matrix) {
    Rows rows = {.count = matrix.rows,
                 .length = matrix.cols,
                 .pitch = matrix.pitch,
                 .parts = 1,
                 .chunk = matrix.cols,
                 .threads = 1};
    const std::int64_t bytes = matrix.cols * job.kernels.element;
    if (bytes < kLongRowBytes && matrix.rows != 1) {
        while (rows.threads < kWarp && rows.threads * kWordBytes < bytes) rows.threads *= 2;
        return rows;
    }
    rows.threads = kThreads;
    const std::int64_t most = std::max<std::int64_t>(1, bytes / kLeastPartBytes);
    const std::int64_t asked = std::clamp<std::int64_t>(
        job.wanted_blocks(job.kernels.long_rows) / std::max<std::int64_t>(1, matrix.rows), 1, most);
    // Parts are whole sweeps of a block over words, so that all of them are aligned as the row is.
    const std::int64_t sweep = kThreads * kInFlight * kWordBytes / job.kernels.element;
    rows.chunk = std::max(sweep, pieces(pieces(matrix.cols, asked), sweep) * sweep);
    rows.parts = std::max<std::int64_t>(1, pieces(matrix.cols, rows.chunk));
    return rows;
}

Launch launch_rows(const Job& job, const RowProblem& matrix, const Results& results) {
    const Rows rows = rows_of(job, matrix);
    const std::int64_t items = rows.count * rows.parts;
    const bool cut = rows.parts > 1;
    const std::int64_t partial_bytes = cut ? items * job.kernels.total : 0;
    const std::int64_t bytes =
        partial_bytes + (cut ? rows.count * static_cast<std::int64_t>(sizeof(unsigned)) : 0);
    const auto memory = job.workspace(bytes);
    auto* tickets = reinterpret_cast<unsigned*>(static_cast<std::byte*>(memory->data()) + partial_bytes);
    const Geometry geometry = {.grid = dim3(grid_of(pieces(items, kThreads / rows.threads))),
                               .block = dim3(kThreads)};
    const bool by_block = rows.threads == kThreads;
    const auto kernel = by_block ? job.kernels.long_rows : job.kernels.short_rows;
    Launch launch = {.level = "shuffle", .run = [=, in = job.a.data](Stream stream) {
                         kernel<<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(
                             in, rows, memory->data(), tickets, results);
                         GPUMAT_CUDA(cudaGetLastError());
                     }};
    launch.details = launch_details(reinterpret_cast<const void*>(kernel), geometry);
    launch.details.emplace_back(by_block ? "parts" : "lanes",
                                std::to_string(by_block ? rows.parts : rows.threads));
    launch.workspace_bytes = static_cast<std::uint64_t>(bytes);
    return launch;
}

void run_combine(const Kernels& kernels, const void* totals, std::int64_t parts, std::int64_t cols,
                 const Results& results, Stream stream) {
    kernels.combine<<<grid_of(pieces(cols, kWarp)), kWarp * kCombiningRows, 0, cuda_stream(stream)>>>(
        totals, parts, cols, results);
    GPUMAT_CUDA(cudaGetLastError());
}

/// All elements of a matrix with gaps: its rows, then their totals.
Launch launch_gapped(const Job& job) {
    const std::int64_t count = job.problem.m;
    const std::int64_t bytes = count * job.kernels.total;
    const auto memory = job.workspace(bytes);
    Results totals = job.results;
    totals.out = memory->data();
    totals.unfinished = true;
    Launch rows = launch_rows(job, {count, job.problem.n, job.a.pitch}, totals);
    rows.run = [=, first = rows.run, kernels = job.kernels, results = job.results](Stream stream) {
        first(stream);
        run_combine(kernels, memory->data(), count, 1, results, stream);
    };
    rows.workspace_bytes += static_cast<std::uint64_t>(bytes);
    return rows;
}

Launch launch_columns(const Job& job) {
    const Problem& problem = job.problem;
    const std::int64_t strip = kWarp * job.kernels.columns_a_thread;
    const std::int64_t pitch = job.a.pitch;
    // As many rows side by side as it takes to give every lane columns.
    const bool folds = pitch == problem.n && problem.n < strip;
    const std::int64_t fold =
        folds ? std::clamp<std::int64_t>(strip / problem.n, 1, std::max<std::int64_t>(1, problem.m)) : 1;
    Columns matrix = {.rows = pieces(problem.m, fold),
                      .cols = problem.n * fold,
                      .pitch = pitch * fold,
                      .limit = problem.m == 0 ? 0 : (problem.m - 1) * pitch + problem.n,
                      .parts = 1,
                      .chunk = 1,
                      .strips = pieces(problem.n * fold, strip)};
    const std::int64_t least_rows = kRowsOfThreads * kRowsInFlight;
    const std::int64_t wanted =
        std::max<std::int64_t>(1, job.wanted_blocks(job.kernels.columns) / matrix.strips);
    // Parts are whole sweeps: the rows that are left over are read element by element.
    matrix.chunk = std::max(least_rows, pieces(pieces(matrix.rows, wanted), least_rows) * least_rows);
    matrix.parts = std::max<std::int64_t>(1, pieces(matrix.rows, matrix.chunk));
    const auto address = reinterpret_cast<std::uintptr_t>(job.a.data);
    const auto word = static_cast<std::uintptr_t>(job.kernels.columns_a_thread * job.kernels.element);
    const bool aligned = address % word == 0 && matrix.pitch % job.kernels.columns_a_thread == 0;
    const std::int64_t bytes = matrix.parts * matrix.cols * job.kernels.total;
    const auto memory = job.workspace(bytes);
    const Geometry geometry = {.grid = dim3(grid_of(matrix.strips * matrix.parts)), .block = dim3(kThreads)};
    Launch launch = {.level = "shuffle",
                     .run = [=, in = job.a.data, kernels = job.kernels, results = job.results,
                             cols = problem.n](Stream stream) {
                         kernels.columns<<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(
                             in, matrix, aligned, memory->data(), results.ending.mirror);
                         GPUMAT_CUDA(cudaGetLastError());
                         // Columns of rows that were side by side follow each other like those of parts.
                         run_combine(kernels, memory->data(), matrix.parts * fold, cols, results, stream);
                     }};
    launch.details = launch_details(reinterpret_cast<const void*>(job.kernels.columns), geometry);
    launch.details.emplace_back("parts", std::to_string(matrix.parts * fold));
    launch.workspace_bytes = static_cast<std::uint64_t>(bytes);
    return launch;
}

}  // namespace

Launch prepare_shuffle(const Problem& problem, const Operands& operands, const Device& device) {
    const Kernels kernels = visit_accumulator(problem, []<class A>(A) -> Kernels {
        using Total = typename A::Total;
        static_assert(sizeof(Words<Total>) == sizeof(Total));
        return {rows_kernel<A, true>,        rows_kernel<A, false>, columns_kernel<A>, combine_kernel<Total>,
                sizeof(typename A::Element), sizeof(Total),         columns_of<A>()};
    });
    const Job job = {kernels, problem, operands.a, device, results_of(problem, operands.c)};
    const Axis axis = axis_of(problem);
    if (axis == Axis::columns) {
        if (problem.n == 0) return {.level = "shuffle", .run = [](Stream) {}};
        return launch_columns(job);
    }
    RowProblem matrix = {problem.m, problem.n, operands.a.pitch};
    if (axis == Axis::all && (is_contiguous(operands.a) || problem.n == 0)) {  // one row
        matrix = {1, problem.m * problem.n, 0};
    } else if (axis == Axis::all) {
        return launch_gapped(job);
    }
    return launch_rows(job, matrix, job.results);
}

}  // namespace gpumat::reduce::gpu
