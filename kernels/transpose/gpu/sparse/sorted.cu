// transpose of sparse matrices, GPU level `sorted`: a radix sort of the entries by column, eight bits at a
// time from the lowest, of as many bits as the columns have.
//
// Since `atomic`: each step keeps the order of what is equal, so that the entries of a column stay in that of
// their rows, no row is sorted afterwards, and no counter is shared. A step writes to 256 places at a time,
// whose lines stay in L2 until they are full. Traffic: each step reads the entries twice and writes them
// once, 16 bytes each (32 for values of 16 bytes or long indices), and there is one for every eight bits of a
// column. What limits it: that traffic.
//
// Source of the idea: least-significant-digit radix sort on GPUs (Satish, Harris and Garland 2009), and ranks
// by matching within a warp (Adinets and Merrill 2022).
#include "kernels/transpose/gpu/sparse/levels.hpp"
#include "kernels/transpose/gpu/sparse/partition.cuh"

namespace gpumat::transpose::gpu::sparse {
namespace {

constexpr int kDigitBits = 8;
constexpr int kPointerThreads = 256;

/// The result, and the columns, of which the pointers are made.
template <class I, class T>
struct SortedSink {
    CsrSink<I, T> result;
    I* columns;

    __device__ void store(std::int64_t place, const Entry<I, T>& entry) const {
        result.store(place, entry);
        columns[place] = entry.column;
    }
};

/// The pointer of each column: the first entry that has it or a later one.
template <class I>
__global__ void pointers_kernel(const I* columns, std::int64_t entries, std::int64_t count,
                                std::int64_t* pointers) {
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; column <= count;
         column += stride) {
        std::int64_t begin = 0;
        std::int64_t end = entries;
        while (begin < end) {
            const std::int64_t middle = begin + (end - begin) / 2;
            if (columns[middle] < column) {
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        pointers[column] = begin;
    }
}

template <class I, class T, class Place>
struct Sorting {
    int steps;
    Partition<Place> partition;  ///< of the first step
    Entry<I, T>* buffers[2];
    I* columns;

    void run(const Operands& operands, cudaStream_t stream) const {
        const SortedSink<I, T> sink{sink_of<I, T>(operands), columns};
        for (int step = 0; step < steps; ++step) {
            Partition<Place> now = partition;
            now.digit.shift = step * kDigitBits;
            const auto from = [&](const auto& source) {
                now.count(source, stream);
                now.find_places(stream);
                if (step == steps - 1) {
                    now.place(source, sink, stream);
                } else {
                    now.place(source, EntrySink<I, T>{buffers[step % 2]}, stream);
                }
            };
            if (step == 0) {
                from(source_of<I, T>(operands));
            } else {
                from(EntrySource<I, T>{buffers[(step - 1) % 2]});
            }
        }
        const std::int64_t rows = operands.c.rows;
        pointers_kernel<<<blocks_for(rows + 1, kPointerThreads), kPointerThreads, 0, stream>>>(
            columns, operands.a.entries, rows, operands.c.pointers);
        GPUMAT_CUDA(cudaGetLastError());
    }
};

}  // namespace

Reasons sorted_unsupported(const Problem& problem, const Operands& operands, const Device& device) {
    const Reasons reasons = in_place_unsupported(problem, operands, device);
    return reasons.empty() ? place_unsupported(kDigitBits, device) : reasons;
}

Launch prepare_sorted(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.entries.front() == 0) return no_entries("sorted", operands);
    return visit_entries(problem, [&]<class I, class T, class Place>(TypeTag<I>, TypeTag<T>, TypeTag<Place>) {
        const auto work = std::make_shared<Workspace>(*device.gpu);
        const int bits = std::max(bits_of(problem.n), 1);
        const Tiles tiles{nullptr, 1, problem.entries.front(), kTileShift<Entry<I, T>>};
        const Digit digit{0, std::min(bits, kDigitBits)};
        Sorting<I, T, Place> sorting{(bits + kDigitBits - 1) / kDigitBits,
                                     {.tiles = tiles,
                                      .digit = digit,
                                      .counts = work->take<Place>(tiles.count() * digit.count()),
                                      .totals = work->take<Place>(digit.count()),
                                      .starts = work->take<std::int64_t>(digit.count() + 1),
                                      .known = digit.count(),
                                      .scan = work->take<std::int64_t>(scan_words(digit.count()))},
                                     {},
                                     work->take<I>(problem.entries.front())};
        for (int i = 0; i < std::min(sorting.steps - 1, 2); ++i)
            sorting.buffers[i] = work->take<Entry<I, T>>(problem.entries.front());
        return Launch{
            .level = "sorted",
            .run = [sorting, operands, work](Stream stream) { sorting.run(operands, cuda_stream(stream)); },
            .details = {{"steps", std::to_string(sorting.steps)}, {"tiles", std::to_string(tiles.count())}},
            .workspace_bytes = work->bytes()};
    });
}

}  // namespace gpumat::transpose::gpu::sparse
