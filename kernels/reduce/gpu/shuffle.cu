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
#include <numeric>

#include "kernels/reduce/gpu/columns.cuh"
#include "kernels/reduce/gpu/levels.hpp"

namespace gpumat::reduce::gpu {
namespace {

constexpr std::int64_t kMostBlocks = 1 << 30;
// Rows of at least so many bytes are work for blocks, shorter ones for warps.
constexpr std::int64_t kLongRowBytes = 32 * 1024;
// A part has at least so many bytes: less is not worth its end.
constexpr std::int64_t kLeastPartBytes = 16 * 1024;

constexpr std::int64_t pieces(std::int64_t count, std::int64_t size) {
    return (count + size - 1) / size;
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

// ---- Launches

/// The kernels of an accumulator, and sizes in bytes.
struct Kernels {
    void (*long_rows)(const void* in, Rows rows, void* partials, unsigned* tickets, Results results);
    void (*short_rows)(const void* in, Rows rows, void* partials, unsigned* tickets, Results results);
    void (*columns)(const void* in, Columns matrix, void* totals, Mirror mirror);
    void (*combine)(const void* totals, std::int64_t parts, std::int64_t cols, int width, Results results);
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
    int width = 1;
    while (width < kWarp && 2 * width <= cols) width *= 2;
    kernels.combine<<<grid_of(pieces(cols, width)), kCombining, 0, cuda_stream(stream)>>>(totals, parts, cols,
                                                                                          width, results);
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

/// How the columns of a problem are taken, `fold` rows of them side by side.
Columns plan_columns(const Job& job, std::int64_t fold) {
    const Problem& problem = job.problem;
    const std::int64_t word = job.kernels.columns_a_thread;
    const std::int64_t pitch = job.a.pitch;
    Columns matrix = {.rows = pieces(problem.m, fold),
                      .cols = problem.n * fold,
                      .pitch = pitch * fold,
                      .limit = problem.m == 0 ? 0 : (problem.m - 1) * pitch + problem.n};
    const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(job.a.data));
    matrix.skew = address / job.kernels.element % word;
    matrix.period = word / std::gcd(matrix.pitch, word);
    const std::int64_t least_rows = kRowsOfThreads * kRowsInFlight;
    // Each part leaves a total for every column: there are to be rows enough for as many parts.
    matrix.by_words = 2 * matrix.rows >= least_rows * matrix.period;
    if (!matrix.by_words) matrix.period = 1;
    const bool shifted = matrix.by_words && (matrix.skew != 0 || matrix.period > 1);
    matrix.strips = pieces(matrix.cols + (shifted ? word - 1 : 0), kWarp * word);
    const std::int64_t wanted =
        std::max<std::int64_t>(1, job.wanted_blocks(job.kernels.columns) / (matrix.strips * matrix.period));
    // Parts are whole sweeps, so that few rows are left over.
    const std::int64_t rows = pieces(matrix.rows, matrix.period);
    matrix.chunk = std::max(least_rows, pieces(pieces(rows, wanted), least_rows) * least_rows);
    matrix.parts = matrix.period * std::max<std::int64_t>(1, pieces(rows, matrix.chunk));
    return matrix;
}

/// As many rows side by side as it takes to give every lane columns, and such that all begin alike.
std::int64_t rows_side_by_side(const Job& job) {
    const std::int64_t columns = job.problem.n;
    const std::int64_t word = job.kernels.columns_a_thread;
    if (job.a.pitch != columns || columns >= kWarp * word) return 1;
    const std::int64_t fold =
        std::clamp<std::int64_t>(kWarp * word / columns, 1, std::max<std::int64_t>(1, job.problem.m));
    const std::int64_t period = word / std::gcd(columns, word);
    return fold < period ? fold : fold / period * period;
}

Launch launch_columns(const Job& job) {
    const std::int64_t fold = rows_side_by_side(job);
    const Columns matrix = plan_columns(job, fold);
    const std::int64_t bytes = matrix.parts * matrix.cols * job.kernels.total;
    const auto memory = job.workspace(bytes);
    const Geometry geometry = {.grid = dim3(grid_of(matrix.strips * matrix.parts)), .block = dim3(kThreads)};
    Launch launch = {.level = "shuffle",
                     .run = [=, in = job.a.data, kernels = job.kernels, results = job.results,
                             cols = job.problem.n](Stream stream) {
                         kernels.columns<<<geometry.grid, geometry.block, 0, cuda_stream(stream)>>>(
                             in, matrix, memory->data(), results.ending.mirror);
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
