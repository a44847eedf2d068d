// transpose of sparse matrices, CPU level `counting`: each thread counts the columns of its share of the
// entries, and knows from the counts of the others where its own entries belong.
//
// Since `serial`: several cores wait for cache misses at the same time. Shares are as many entries each,
// whatever their rows, so that one dense row is no thread's alone. Traffic: as `serial`, and the counts, 8
// bytes a column and thread, three times. What limits it: a cache line fetched and written back for every
// entry, and with many threads and columns the counts.
//
// Source of the idea: the counting sort of several processors (Zagha and Blelloch 1991).
#include <memory>

#include "core/parallel.hpp"
#include "kernels/transpose/cpu/sparse/entries.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"

namespace gpumat::transpose::cpu::sparse {
namespace {

template <class I, class T>
void count_and_place(const Operand& in, const MutableOperand& out, std::int64_t* counts, int threads) {
    const I* const columns = static_cast<const I*>(in.columns);
    I* const rows = static_cast<I*>(out.columns);
    const std::int64_t n = out.rows;
    parallel_for(threads, 1, threads, [&](std::int64_t share, std::int64_t) {
        std::int64_t* const mine = counts + share * n;
        std::fill_n(mine, n, 0);
        const std::int64_t end = begin_of_share(in.entries, share + 1, threads);
        for (std::int64_t at = begin_of_share(in.entries, share, threads); at < end; ++at)
            ++mine[columns[at]];
    });
    std::int64_t before = 0;
    for (std::int64_t col = 0; col < n; ++col) {
        out.pointers[col] = before;
        for (std::int64_t share = 0; share < threads; ++share) {
            const std::int64_t count = counts[share * n + col];
            counts[share * n + col] = before;
            before += count;
        }
    }
    out.pointers[n] = before;
    parallel_for(threads, 1, threads, [&](std::int64_t share, std::int64_t) {
        std::int64_t* const next = counts + share * n;
        for_each_entry(in, begin_of_share(in.entries, share, threads),
                       begin_of_share(in.entries, share + 1, threads),
                       [&](std::int64_t row, std::int64_t at) {
                           const std::int64_t place = next[columns[at]]++;
                           rows[place] = static_cast<I>(row);
                           out.as<T>()[place] = in.as<T>()[at];
                       });
    });
}

}  // namespace

std::uint64_t counting_bytes(const Problem& problem, int threads) {
    const std::uint64_t each = static_cast<std::uint64_t>(threads) * sizeof(std::int64_t);
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    const auto columns = static_cast<std::uint64_t>(problem.n);
    return columns > kMost / each ? kMost : columns * each;
}

Launch prepare_counting(const Problem& problem, const Operands& operands, const Device& device) {
    const auto counts = std::make_shared<Buffer>(counting_bytes(problem, device.threads));
    return {.level = "counting",
            .run =
                [problem, operands, counts, threads = device.threads](Stream) {
                    visit_entries(problem, [&]<class I, class T>(TypeTag<I>, TypeTag<T>) {
                        count_and_place<I, T>(operands.a, operands.c,
                                              reinterpret_cast<std::int64_t*>(counts->data()), threads);
                    });
                },
            .details = {{"shares", std::to_string(device.threads)}}};
}

}  // namespace gpumat::transpose::cpu::sparse
