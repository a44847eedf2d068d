// transpose of sparse matrices, GPU level `atomic`: a thread an entry asks the counter of its column for its
// place; then every row of the result is sorted.
//
// Traffic: the columns are read twice, and every entry is written to a place of its own: sectors of three
// arrays an entry, which have left L2 before their other entries come where there are many columns. Counters
// hand out places in any order, so that each row is sorted afterwards, by a warp, long ones by a block, with
// a bitonic network in place (for any length: no comparator moves what is behind the end). What limits it:
// that sort, and the sectors; and where many entries share a column, its counter.
//
// Source of the idea: the scatter of sparse libraries' first GPU conversions; bitonic sort (Batcher 1968).
#include "kernels/transpose/gpu/sparse/entries.cuh"
#include "kernels/transpose/gpu/sparse/levels.hpp"
#include "kernels/transpose/gpu/sparse/scan.cuh"

namespace gpumat::transpose::gpu::sparse {
namespace {

using Counter = unsigned long long;

constexpr int kThreads = 256;
constexpr int kWarpThreads = 32;
constexpr int kManyThreads = 1024;
/// Rows up to this length are a warp's.
constexpr std::int64_t kShort = 2048;

template <class I>
__global__ void count_columns_kernel(const I* columns, std::int64_t entries, Counter* counts) {
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < entries; at += stride)
        atomicAdd(counts + columns[at], Counter{1});
}

template <class I, class T>
__global__ void scatter_kernel(CsrSource<I, T> source, CsrSink<I, T> sink, std::int64_t entries,
                               Counter* next) {
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    std::int64_t row = 0;
    for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < entries; at += stride) {
        const Entry<I, T> entry = source.entry(at, row);
        sink.store(static_cast<std::int64_t>(atomicAdd(next + entry.column, Counter{1})), entry);
    }
}

/// Puts both in order; `second` is behind `first`.
template <class I, class T>
__device__ void order(const CsrSink<I, T>& sink, std::int64_t first, std::int64_t second) {
    const I a = sink.rows[first];
    const I b = sink.rows[second];
    if (a <= b) return;
    sink.rows[first] = b;
    sink.rows[second] = a;
    const T value = sink.values[first];
    sink.values[first] = sink.values[second];
    sink.values[second] = value;
}

/// Sorts the entries from `begin` on by their rows, with `threads` threads of which this is number `thread`.
template <class I, class T, class Wait>
__device__ void sort_entries(const CsrSink<I, T>& sink, std::int64_t begin, std::int64_t length, int thread,
                             int threads, const Wait& wait) {
    for (std::int64_t half = 1; half < length; half *= 2) {
        // Runs of `half` are in order. Two become one: mirrored ends first, then ever nearer ones.
        for (std::int64_t t = thread; t / half * 2 * half < length; t += threads) {
            const std::int64_t run = t / half * 2 * half;
            const std::int64_t other = run + 2 * half - 1 - t % half;
            if (other < length) order(sink, begin + run + t % half, begin + other);
        }
        wait();
        for (std::int64_t distance = half / 2; distance > 0; distance /= 2) {
            for (std::int64_t t = thread; t / distance * 2 * distance < length; t += threads) {
                const std::int64_t one = t / distance * 2 * distance + t % distance;
                if (one + distance < length) order(sink, begin + one, begin + one + distance);
            }
            wait();
        }
    }
}

template <class I, class T>
__global__ void sort_short_kernel(CsrSink<I, T> sink, const std::int64_t* pointers, std::int64_t rows) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / kWarpThreads);
    for (std::int64_t row = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarpThreads; row < rows;
         row += warps) {
        const std::int64_t length = pointers[row + 1] - pointers[row];
        if (length <= kShort)
            sort_entries(sink, pointers[row], length, lane, kWarpThreads, [] { __syncwarp(); });
    }
}

/// A block looks for the long ones among as many rows as it has threads.
template <class I, class T>
__global__ void __launch_bounds__(kManyThreads)
    sort_long_kernel(CsrSink<I, T> sink, const std::int64_t* pointers, std::int64_t rows) {
    __shared__ std::int64_t found[kManyThreads];
    __shared__ int count;
    const int thread = static_cast<int>(threadIdx.x);
    const std::int64_t stride = std::int64_t{gridDim.x} * kManyThreads;
    for (std::int64_t first = std::int64_t{blockIdx.x} * kManyThreads; first < rows; first += stride) {
        if (thread == 0) count = 0;
        __syncthreads();
        const std::int64_t row = first + thread;
        if (row < rows && pointers[row + 1] - pointers[row] > kShort) found[atomicAdd(&count, 1)] = row;
        __syncthreads();
        for (int i = 0; i < count; ++i) {
            const std::int64_t begin = pointers[found[i]];
            sort_entries(sink, begin, pointers[found[i] + 1] - begin, thread, kManyThreads,
                         [] { __syncthreads(); });
        }
        __syncthreads();
    }
}

template <class I, class T>
void enqueue(const Operands& operands, Counter* counts, std::int64_t* scan, cudaStream_t stream) {
    const CsrSource<I, T> source = source_of<I, T>(operands);
    const CsrSink<I, T> sink = sink_of<I, T>(operands);
    const std::int64_t entries = operands.a.entries;
    const std::int64_t rows = operands.c.rows;
    std::int64_t* const pointers = operands.c.pointers;
    const auto bytes = static_cast<std::size_t>(rows) * sizeof(Counter);
    GPUMAT_CUDA(cudaMemsetAsync(counts, 0, bytes, stream));
    count_columns_kernel<<<blocks_for(entries, kThreads), kThreads, 0, stream>>>(source.columns, entries,
                                                                                 counts);
    GPUMAT_CUDA(cudaGetLastError());
    exclusive_scan(counts, rows, pointers, scan, stream);
    GPUMAT_CUDA(cudaMemcpyAsync(counts, pointers, bytes, cudaMemcpyDeviceToDevice, stream));
    scatter_kernel<<<blocks_for(entries, kThreads), kThreads, 0, stream>>>(source, sink, entries, counts);
    GPUMAT_CUDA(cudaGetLastError());
    sort_short_kernel<<<blocks_for(rows, kThreads / kWarpThreads), kThreads, 0, stream>>>(sink, pointers,
                                                                                          rows);
    GPUMAT_CUDA(cudaGetLastError());
    sort_long_kernel<<<blocks_for(rows, kManyThreads), kManyThreads, 0, stream>>>(sink, pointers, rows);
    GPUMAT_CUDA(cudaGetLastError());
}

}  // namespace

Launch prepare_atomic(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.entries.front() == 0) return no_entries("atomic", operands);
    const auto work = std::make_shared<Workspace>(*device.gpu);
    auto* const counts = work->take<Counter>(problem.n);
    auto* const scan = work->take<std::int64_t>(scan_words(problem.n));
    return {.level = "atomic",
            .run =
                [=](Stream stream) {
                    visit_entries(problem,
                                  [&]<class I, class T, class Place>(TypeTag<I>, TypeTag<T>, TypeTag<Place>) {
                                      enqueue<I, T>(operands, counts, scan, cuda_stream(stream));
                                  });
                    (void)work;
                },
            .workspace_bytes = work->bytes()};
}

}  // namespace gpumat::transpose::gpu::sparse
