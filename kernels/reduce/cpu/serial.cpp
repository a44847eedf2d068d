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

template <class R, class T>
void add_elements(const T* from, std::int64_t count, typename R::Total& total) {
    for (std::int64_t begin = 0; begin < count; begin += kLongestRun) {
        ScalarRun<R> run;
        const std::int64_t end = std::min(count, begin + kLongestRun);
        for (std::int64_t i = begin; i < end; ++i) run.add(element_at<R>(from + i));
        total.take(run);
    }
}

template <class R, class T>
void reduce_all(const Operand& a, std::int64_t m, std::int64_t n, const Results<R>& results) {
    typename R::Total total;
    for (std::int64_t i = 0; i < m && n > 0; ++i) add_elements<R>(a.as<T>() + i * a.pitch, n, total);
    results.store(0, total);
}

template <class R, class T>
void reduce_rows(const Operand& a, std::int64_t m, std::int64_t n, const Results<R>& results) {
    for (std::int64_t i = 0; i < m; ++i) {
        typename R::Total total;
        add_elements<R>(a.as<T>() + i * a.pitch, n, total);
        results.store(i, total);
    }
}

template <class R, class T>
void reduce_columns(const Operand& a, std::int64_t m, std::int64_t n, const Results<R>& results) {
    std::vector<typename R::Total> totals(static_cast<std::size_t>(n));
    std::vector<ScalarRun<R>> runs(totals.size());
    for (std::int64_t i = 0; i < m; ++i) {
        const T* row = a.as<T>() + i * a.pitch;
        for (std::size_t j = 0; j < runs.size(); ++j) runs[j].add(element_at<R>(row + j));
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
                visit_reducer(problem, [&]<class R, class T>(R, TypeTag<T>) {
                    const Results<R> results(problem, operands.c);
                    switch (axis_of(problem)) {
                        case Axis::rows:
                            return reduce_rows<R, T>(operands.a, problem.m, problem.n, results);
                        case Axis::columns:
                            return reduce_columns<R, T>(operands.a, problem.m, problem.n, results);
                        default:
                            return reduce_all<R, T>(operands.a, problem.m, problem.n, results);
                    }
                });
            }};
}

}  // namespace gpumat::reduce::cpu
