// multiply, CPU level `naive`: the textbook loops in i, j, k order on one thread.
//
// Per multiply-add it reads one element of A in order and one of B with a stride of n elements, so B
// misses the cache once a column of it no longer fits. What limits it: cache misses on B and the latency
// of one chain of additions.
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/levels.hpp"

namespace gpumat::multiply::cpu {
namespace {

template <class T>
void multiply(const Problem& p, const Operands& operands) {
    const auto* a = static_cast<const T*>(operands.a);
    const auto* b = static_cast<const T*>(operands.b);
    auto* c = static_cast<T*>(operands.c);
    const Epilogue<T> finish(p, operands);
    // Element steps along k and along the result, for either storage of A and B.
    const std::int64_t a_row = p.transpose_a ? 1 : p.k;
    const std::int64_t a_step = p.transpose_a ? p.m : 1;
    const std::int64_t b_col = p.transpose_b ? p.k : 1;
    const std::int64_t b_step = p.transpose_b ? 1 : p.n;
    for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
            Sum<T> sum{};
            for (std::int64_t k = 0; k < p.k; ++k) {
                sum = multiply_add(static_cast<Sum<T>>(a[i * a_row + k * a_step]),
                                   static_cast<Sum<T>>(b[k * b_step + j * b_col]), sum);
            }
            c[i * p.n + j] = finish(sum, i * p.n + j);
        }
    }
}

}  // namespace

Launch prepare_naive(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = "naive",
            .run =
                [problem, operands] {
                    visit_multiply_type(problem.type,
                                        [&]<class T>(TypeTag<T>) { multiply<T>(problem, operands); });
                },
            .details = {}};
}

}  // namespace gpumat::multiply::cpu
