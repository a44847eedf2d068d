// transpose of sparse matrices, GPU level `onesweep`: a radix sort of the entries by column whose every step
// reads them once.
//
// Since `blocked`: short digits. A tile of entries has only 256 places to write to, so that what it writes
// lies in runs of whole sectors, and its counters leave room for more blocks on a multiprocessor, one of
// which loads while others rank and write. A step needs no pass that counts: a block leaves the counts of its
// tile where the later tiles look back for them, and adds up those of the tiles before it, until it finds one
// that knows all before itself. The last step counts how long the runs of each column are, of which the
// pointers are made; a single step has counted the columns themselves. Traffic: the columns once, and every
// entry is read and written once for every eight bits of a column. What limits it: that traffic, and the time
// from loading a tile to writing it.
//
// A tile has the number that its block draws, so that those before it run or have run, whichever order the
// device starts blocks in: no block waits for one that cannot start. Every run gives the same.
//
// Source of the idea: A. Adinets and D. Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for
// GPUs" (2022).
#include "kernels/transpose/gpu/sparse/levels.hpp"
#include "kernels/transpose/gpu/sparse/sweep.cuh"

namespace gpumat::transpose::gpu::sparse {
namespace {

/// As few steps as there can be, of nearly equal length.
sweep::Steps steps_of(std::int64_t columns) {
    const int bits = std::max(bits_of(columns), 1);
    sweep::Steps steps{};
    steps.count = (bits + sweep::kMostBits - 1) / sweep::kMostBits;
    for (int s = 0, shift = 0; s < steps.count; ++s) {
        const int rest = steps.count - s;
        const int mine = (bits - shift + rest - 1) / rest;
        steps.digits[s] = {shift, mine};
        shift += mine;
    }
    return steps;
}

template <class I, class T, class Place>
struct Onesweep {
    using Value = sweep::Carrier<I, T>;
    static constexpr std::int64_t kTile = sweep::kTile<Value>;
    static constexpr std::int64_t kTotals = std::int64_t{sweep::kMostSteps} * sweep::kMostDigits;

    sweep::Steps steps;
    std::int64_t entries;
    std::int64_t tiles;
    std::int64_t told_of_a_step;
    std::size_t zeroed_bytes;
    unsigned long long* totals;  ///< by step and digit; here begins what is zeroed
    Place* told;                 ///< by step, tile and digit
    Place* lengths;              ///< of columns
    unsigned* drawn;             ///< by step, and here it ends
    std::int64_t* firsts;
    std::int64_t* scan;
    Value* buffers[2];

    Onesweep(const Problem& problem, Workspace& work)
        : steps(steps_of(problem.n)),
          entries(problem.entries.front()),
          tiles((entries + kTile - 1) / kTile),
          told_of_a_step(tiles * steps.digits[0].count()),
          zeroed_bytes(kTotals * sizeof *totals + sweep::kMostSteps * sizeof *drawn +
                       static_cast<std::size_t>(steps.count * told_of_a_step + problem.n) * sizeof *told),
          totals(reinterpret_cast<unsigned long long*>(
              work.take<std::byte>(static_cast<std::int64_t>(zeroed_bytes)))),
          told(reinterpret_cast<Place*>(totals + kTotals)),
          lengths(told + steps.count * told_of_a_step),
          drawn(reinterpret_cast<unsigned*>(lengths + problem.n)),
          firsts(work.take<std::int64_t>(tiles + 1)),
          scan(work.take<std::int64_t>(scan_words(problem.n))),
          buffers{steps.count > 1 ? work.take<Value>(entries) : nullptr,
                  steps.count > 2 ? work.take<Value>(entries) : nullptr} {}

    template <class Source, class Sink>
    void step(int s, const Source& source, const Sink& sink, cudaStream_t stream) const {
        sweep::step_kernel<Value><<<static_cast<unsigned>(tiles), sweep::kThreads, 0, stream>>>(
            source, sink, sweep::Step{steps.digits[s], entries}, totals + s * sweep::kMostDigits,
            told + s * told_of_a_step, drawn + s);
        GPUMAT_CUDA(cudaGetLastError());
    }

    /// Counts the digits, and finds the row that each tile begins in.
    void count(const CsrSource<I, T>& source, std::int64_t* pointers, std::int64_t columns,
               cudaStream_t stream) const {
        using namespace sweep;
        GPUMAT_CUDA(cudaMemsetAsync(totals, 0, zeroed_bytes, stream));
        count_digits_kernel<<<blocks_for(entries / 256, sweep::kThreads), sweep::kThreads, 0, stream>>>(
            source.columns, entries, steps, totals);
        GPUMAT_CUDA(cudaGetLastError());
        if (steps.count == 1) exclusive_scan(totals, columns, pointers, scan, stream);  // digits are columns
        digit_starts_kernel<<<static_cast<unsigned>(steps.count), kMostDigits, 0, stream>>>(totals);
        GPUMAT_CUDA(cudaGetLastError());
        first_rows_kernel<<<static_cast<unsigned>(tiles / sweep::kThreads + 1), sweep::kThreads, 0, stream>>>(
            source.pointers, source.rows, entries, kTile, tiles, firsts);
        GPUMAT_CUDA(cudaGetLastError());
    }

    void run(const Operands& operands, cudaStream_t stream) const {
        using namespace sweep;
        const CsrSource<I, T> source = source_of<I, T>(operands);
        const OnlySink<I, T> sink{sink_of<I, T>(operands)};
        const Rows<I, T> rows{source, firsts};
        std::int64_t* const pointers = operands.c.pointers;
        const std::int64_t columns = operands.c.rows;
        count(source, pointers, columns, stream);
        if (steps.count == 1) return step(0, rows, sink, stream);
        step(0, rows, MovedSink<Value>{buffers[0]}, stream);
        const int last = steps.count - 1;
        for (int s = 1; s < last; ++s)
            step(s, Moved<Value>{buffers[(s - 1) % 2]}, MovedSink<Value>{buffers[s % 2]}, stream);
        step(last, Moved<Value>{buffers[(last - 1) % 2]}, LastSink<I, T, Place>{sink, lengths}, stream);
        exclusive_scan(lengths, columns, pointers, scan, stream);
    }
};

template <class I, class T, class Place>
Launch prepare(const Problem& problem, const Operands& operands, const Device& device) {
    const auto work = std::make_shared<Workspace>(*device.gpu);
    const Onesweep<I, T, Place> sorting(problem, *work);
    return {
        .level = "onesweep",
        .run = [sorting, operands, work](Stream stream) { sorting.run(operands, cuda_stream(stream)); },
        .details = {{"steps", std::to_string(sorting.steps.count)}, {"tiles", std::to_string(sorting.tiles)}},
        .workspace_bytes = work->bytes()};
}

}  // namespace

Launch prepare_onesweep(const Problem& problem, const Operands& operands, const Device& device) {
    const std::int64_t entries = problem.entries.front();
    if (entries == 0) return no_entries("onesweep", operands);
    return visit_entries(problem, [&]<class I, class T, class P>(TypeTag<I>, TypeTag<T>, TypeTag<P>) {
        // Two bits of a place say what it counts.
        if constexpr (sizeof(I) == 4)
            if (entries < (std::int64_t{1} << 30))
                return prepare<I, T, std::uint32_t>(problem, operands, device);
        return prepare<I, T, unsigned long long>(problem, operands, device);
    });
}

}  // namespace gpumat::transpose::gpu::sparse
