// reduce of sparse matrices, CPU level `serial`: one thread adds entry after entry.
//
// Traffic: every value is read once, in order; of columns, which keep a sum each, the index too. Zeros that
// are not stored cost nothing: for each result one of them stands for all, which decides an extreme and adds
// nothing to a sum. What limits it: each addition waits for the one before it; of columns, a cache line an
// entry.
#include <algorithm>

#include "core/numbers/whole.hpp"
#include "kernels/reduce/cpu/sparse/columns.hpp"
#include "kernels/reduce/cpu/sparse/levels.hpp"

namespace gpumat::reduce::cpu::sparse {
namespace {

template <class A>
void add_values(const Operand& a, std::int64_t from, std::int64_t end, const Mirror& mirror,
                typename A::Total& total) {
    const auto* const values = a.as<typename A::Element>();
    for (std::int64_t begin = from; begin < end; begin += kLongestRun) {
        ScalarRun<A> run;
        for (std::int64_t at = begin; at < std::min(end, begin + kLongestRun); ++at)
            run.add(element_at<A>(values + at, mirror));
        total.take(run);
    }
}

/// Of the entries from `from` up to `end`, which are those of one result.
template <class A>
void reduce_to(std::int64_t result, const Operand& a, std::int64_t from, std::int64_t end,
               const Results& results) {
    typename A::Total total;
    add_values<A>(a, from, end, results.ending.mirror, total);
    add_zeros<A>(end - from, results.ending.elements, results.ending.mirror, total);
    results.store(result, total);
}

template <class A>
void reduce_columns(const Operand& a, const Results& results) {
    std::vector<Column<A>> columns(static_cast<std::size_t>(a.cols));
    static_assert(sizeof(Column<A>) <= kColumnBytes);
    add_to_columns<A>(a, 0, a.entries, results.ending.mirror, columns.data());
    for (std::int64_t j = 0; j < a.cols; ++j)
        store_column<A>(columns[static_cast<std::size_t>(j)], j, results);
}

}  // namespace

std::uint64_t serial_bytes(const Problem& problem, int) {
    if (axis_of(problem) != Axis::columns) return 0;
    return saturating_multiply(static_cast<std::uint64_t>(problem.n), kColumnBytes);
}

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = "serial", .run = [problem, operands](Stream) {
                visit_accumulator(problem, [&]<class A>(A) {
                    const Operand& a = operands.a;
                    const Results results = results_of(problem, operands.c);
                    if (axis_of(problem) == Axis::columns) return reduce_columns<A>(a, results);
                    if (axis_of(problem) == Axis::all) return reduce_to<A>(0, a, 0, a.entries, results);
                    for (std::int64_t i = 0; i < a.rows; ++i)
                        reduce_to<A>(i, a, a.pointers[i], a.pointers[i + 1], results);
                });
            }};
}

}  // namespace gpumat::reduce::cpu::sparse
