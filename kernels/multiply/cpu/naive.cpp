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
    const auto* a = operands.a.as<T>();
    const auto* b = operands.b.as<T>();
    auto* c = operands.c.as<Result<T>>();
    const Epilogue<T> finish(p, operands);
    // Element steps along k and along the result, for either storage of A and B.
    const std::int64_t a_row = p.transpose_a ? 1 : operands.a.pitch;
    const std::int64_t a_step = p.transpose_a ? operands.a.pitch : 1;
    const std::int64_t b_col = p.transpose_b ? operands.b.pitch : 1;
    const std::int64_t b_step = p.transpose_b ? 1 : operands.b.pitch;
    for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) {
            Sum<T> sum{};
            for (std::int64_t k = 0; k < p.k; ++k) {
                sum = multiply_add(static_cast<Sum<T>>(a[i * a_row + k * a_step]),
                                   static_cast<Sum<T>>(b[k * b_step + j * b_col]), sum);
            }
            c[i * operands.c.pitch + j] = finish(sum, i, j);
        }
    }
}

}  // namespace

Launch prepare_naive(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = "naive",
            .run =
                [problem, operands](Stream) {
                    visit_multiply_type(problem.type,
                                        [&]<class T>(TypeTag<T>) { multiply<T>(problem, operands); });
                },
            .details = {}};
}

}  // namespace gpumat::multiply::cpu
