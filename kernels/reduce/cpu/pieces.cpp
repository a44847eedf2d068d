#include "kernels/reduce/cpu/pieces.hpp"

#include <new>

#include "kernels/reduce/accumulators.hpp"

namespace gpumat::reduce::cpu {
namespace {

Vectors vectors_of(const Problem& problem, VectorWidth width) {
#ifdef __x86_64__
    if (width == VectorWidth::avx512) return avx512_vectors(problem);
    if (width == VectorWidth::avx2) return avx2_vectors(problem);
#else
    static_cast<void>(width);
#endif
    return plain_vectors(problem);
}

template <class Total>
Totals totals_of() {
    static_assert(sizeof(Total) <= sizeof(AnyTotal));
    static_assert(alignof(Total) <= alignof(AnyTotal));  // NOLINT(misc-redundant-expression)
    return {.start = [](AnyTotal& total) { new (&total) Total; },
            .merge =
                [](AnyTotal& into, const AnyTotal& other) {
                    reinterpret_cast<Total&>(into).take(reinterpret_cast<const Total&>(other));
                },
            .store = [](const Results& results, std::int64_t at,
                        const AnyTotal& total) { results.store(at, reinterpret_cast<const Total&>(total)); }};
}

}  // namespace

Pieces pieces_of(const Problem& problem, VectorWidth width) {
    return {vectors_of(problem, width),
            visit_accumulator(problem, []<class A>(A) { return totals_of<typename A::Total>(); })};
}

}  // namespace gpumat::reduce::cpu
