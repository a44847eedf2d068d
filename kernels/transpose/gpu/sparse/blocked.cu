// transpose of sparse matrices, GPU level `blocked`: entries are put into blocks of neighbouring columns, and
// then the entries of each block where they belong.
//
// Since `sorted`: two steps, whatever the bits of a column. Half of them choose the block in the first step;
// in the second the places of all columns of a block are counted in shared memory, and what a block writes
// lies together. The counts are the pointers of the result, which need no search. Traffic: the columns are
// read twice, and every entry is read, written, read twice and written. What limits it: sectors that are
// written in pieces.
//
// A block of many entries, a dense column, is cut into units as others are, so that no multiprocessor has it
// alone.
//
// Source of the idea: radix partitioning of joins in memory (Manegold, Boncz and Kersten 2002).
#include "kernels/transpose/gpu/sparse/levels.hpp"
#include "kernels/transpose/gpu/sparse/partition.cuh"

namespace gpumat::transpose::gpu::sparse {
namespace {

/// Bits of a column that shared memory has counters for, in each of the two steps.
constexpr int kMostBits = 11;

template <class I, class T, class Place>
struct Blocking {
    Partition<Place> into_blocks;
    Partition<Place> within_blocks;
    Entry<I, T>* entries;

    void run(const Operands& operands, cudaStream_t stream) const {
        const CsrSource<I, T> source = source_of<I, T>(operands);
        into_blocks.count(source, stream);
        into_blocks.find_places(stream);
        into_blocks.place(source, EntrySink<I, T>{entries}, stream);
        const EntrySource<I, T> in_blocks{entries};
        within_blocks.count(in_blocks, stream);
        within_blocks.find_places(stream);
        within_blocks.place(in_blocks, sink_of<I, T>(operands), stream);
    }
};

}  // namespace

Reasons blocked_unsupported(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = in_place_unsupported(problem, operands, device);
    constexpr std::int64_t kMostColumns = std::int64_t{1} << (2 * kMostBits);
    if (problem.n > kMostColumns)
        reasons.push_back("it takes up to " + std::to_string(kMostColumns) + " columns, and there are " +
                          std::to_string(problem.n));
    if (!reasons.empty()) return reasons;
    return place_unsupported((bits_of(problem.n) + 1) / 2, device);
}

Launch prepare_blocked(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.entries.front() == 0) return no_entries("blocked", operands);
    return visit_entries(problem, [&]<class I, class T, class Place>(TypeTag<I>, TypeTag<T>, TypeTag<Place>) {
        const auto work = std::make_shared<Workspace>(*device.gpu);
        const int bits = bits_of(problem.n);
        const Digit within{0, (bits + 1) / 2};
        const Digit block{within.bits, bits - within.bits};
        const std::int64_t blocks = block.count();
        const std::int64_t columns = blocks * within.count();
        auto* const starts = work->take<std::int64_t>(blocks + 1);
        const Tiles all{nullptr, 1, problem.entries.front(), kTileShift<Entry<I, T>>};
        const Tiles by_block{starts, blocks, problem.entries.front(), kTileShift<Entry<I, T>>};
        auto* const counts =
            work->take<Place>(std::max(all.count() * block.count(), by_block.count() * within.count()));
        auto* const totals = work->take<Place>(columns);
        auto* const scan = work->take<std::int64_t>(scan_words(columns));
        const Blocking<I, T, Place> blocking{
            {all, block, counts, totals, starts, blocks, scan},
            {by_block, within, counts, totals, operands.c.pointers, problem.n, scan},
            work->take<Entry<I, T>>(problem.entries.front())};
        return Launch{
            .level = "blocked",
            .run = [blocking, operands, work](Stream stream) { blocking.run(operands, cuda_stream(stream)); },
            .details = {{"blocks", std::to_string(blocks)},
                        {"columns of a block", std::to_string(within.count())},
                        {"tiles", std::to_string(by_block.count())}},
            .workspace_bytes = work->bytes()};
    });
}

}  // namespace gpumat::transpose::gpu::sparse
