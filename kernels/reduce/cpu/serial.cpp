// reduce, CPU level `serial`: one thread adds element after element.
//
// Traffic: every element is read once, in order. Columns keep a sum each, so that the matrix is still walked
// row by row. What limits it: each addition waits for the one before it, four or five clocks, on one core.
//
// After kLongestRun elements a run goes into the total, which keeps what its additions round off: that is
// what bounds the error (README.md).
#include <algorithm>
#include <vector>

#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/cpu/levels.hpp"

namespace gpumat::reduce::cpu {
namespace {

template <class A>
void add_elements(const typename A::Element* from, std::int64_t count, const Mirror& mirror,
                  typename A::Total& total) {
    for (std::int64_t begin = 0; begin < count; begin += kLongestRun) {
        ScalarRun<A> run;
        const std::int64_t end = std::min(count, begin + kLongestRun);
        for (std::int64_t i = begin; i < end; ++i) run.add(element_at<A>(from + i, mirror));
        total.take(run);
    }
}

template <class A>
const typename A::Element* row_of(const Operand& a, std::int64_t row) {
    return a.as<typename A::Element>() + row * a.pitch;
}

template <class A>
void reduce_all(const Operand& a, std::int64_t m, std::int64_t n, const Results& results) {
    typename A::Total total;
    for (std::int64_t i = 0; i < m && n > 0; ++i)
        add_elements<A>(row_of<A>(a, i), n, results.ending.mirror, total);
    results.store(0, total);
}

template <class A>
void reduce_rows(const Operand& a, std::int64_t m, std::int64_t n, const Results& results) {
    for (std::int64_t i = 0; i < m; ++i) {
        typename A::Total total;
        add_elements<A>(row_of<A>(a, i), n, results.ending.mirror, total);
        results.store(i, total);
    }
}

template <class A>
void reduce_columns(const Operand& a, std::int64_t m, std::int64_t n, const Results& results) {
    std::vector<typename A::Total> totals(static_cast<std::size_t>(n));
    std::vector<ScalarRun<A>> runs(totals.size());
    for (std::int64_t i = 0; i < m; ++i) {
        const auto* row = row_of<A>(a, i);
        for (std::size_t j = 0; j < runs.size(); ++j)
            runs[j].add(element_at<A>(row + j, results.ending.mirror));
        if ((i + 1) % kLongestRun != 0 && i + 1 < m) continue;
        for (std::size_t j = 0; j < runs.size(); ++j) {
            totals[j].take(runs[j]);
            runs[j] = {};
        }
    }
    for (std::int64_t j = 0; j < n; ++j) results.store(j, totals[static_cast<std::size_t>(j)]);
}

}  // namespace

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = "serial", .run = [problem, operands](Stream) {
                visit_accumulator(problem, [&]<class A>(A) {
                    const Results results = results_of(problem, operands.c);
                    switch (axis_of(problem)) {
                        case Axis::rows:
                            return reduce_rows<A>(operands.a, problem.m, problem.n, results);
                        case Axis::columns:
                            return reduce_columns<A>(operands.a, problem.m, problem.n, results);
                        default:
                            return reduce_all<A>(operands.a, problem.m, problem.n, results);
                    }
                });
            }};
}

}  // namespace gpumat::reduce::cpu
