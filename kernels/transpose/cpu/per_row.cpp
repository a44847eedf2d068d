// transpose, CPU level `per-row`: the rows of the input are shared out among the threads.
//
// Since `serial`: several cores wait for cache misses at the same time, so the misses of one core no
// longer set the pace. Traffic: as `serial`. Threads take runs of neighbouring rows, so that two threads
// seldom write the same cache line. What limits it: each line of the output is fetched and written back
// once for every element that it holds, as soon as n lines do not fit the cache.
//
// In place, row i swaps its elements right of the diagonal with column i below it. No other row touches
// either, so rows need no lock; early rows have more to swap than late ones, hence the small runs.
//
// Source of the idea: one dimension of parallelism, as in the GPU level of the same name.
#include <algorithm>
#include <utility>

#include "core/parallel.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::cpu {
namespace {

// A thread takes rows of at least this many elements at once, and at least a cache line of each column.
constexpr std::int64_t kElementsAtOnce = 32768;
constexpr std::int64_t kLeastRows = 64;

template <class T>
void transpose_rows(const T* in, std::int64_t in_pitch, T* out, std::int64_t out_pitch, std::int64_t n,
                    std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t j = 0; j < n; ++j) out[j * out_pitch + i] = in[i * in_pitch + j];
    }
}

template <class T>
void swap_rows(T* matrix, std::int64_t pitch, std::int64_t n, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t j = i + 1; j < n; ++j) std::swap(matrix[i * pitch + j], matrix[j * pitch + i]);
    }
}

}  // namespace

Launch prepare_per_row(const Problem& problem, const Operands& operands, const Device& device) {
    const std::int64_t rows_at_once =
        std::max(kLeastRows, kElementsAtOnce / std::max<std::int64_t>(1, problem.n));
    return {.level = "per-row",
            .run =
                [problem, operands, threads = device.threads, rows_at_once](Stream) {
                    visit_element(problem.type, [&]<class T>(TypeTag<T>) {
                        const auto* in = operands.a.as<T>();
                        auto* out = operands.c.as<T>();
                        parallel_for(problem.m, rows_at_once, threads,
                                     [&](std::int64_t begin, std::int64_t end) {
                                         if (problem.in_place) {
                                             swap_rows(out, operands.c.pitch, problem.n, begin, end);
                                         } else {
                                             transpose_rows(in, operands.a.pitch, out, operands.c.pitch,
                                                            problem.n, begin, end);
                                         }
                                     });
                    });
                },
            .details = {{"rows at once", std::to_string(rows_at_once)}}};
}

}  // namespace gpumat::transpose::cpu
