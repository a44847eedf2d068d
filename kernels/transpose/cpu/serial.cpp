// transpose, CPU level `serial`: one thread walks the input row by row.
//
// Traffic: every element is read once in order and written once with a stride of m elements, so each
// write touches another cache line, and another page once m·size passes 4 KiB. What limits it: cache and
// TLB misses on the write side, on one core.
#include <cstring>

#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::cpu {

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = "serial",
            .run =
                [problem, operands] {
                    visit_element(problem.type, [&]<class T>(TypeTag<T>) {
                        const auto* in = static_cast<const T*>(operands.a);
                        auto* out = static_cast<T*>(operands.c);
                        for (std::int64_t i = 0; i < problem.m; ++i) {
                            for (std::int64_t j = 0; j < problem.n; ++j)
                                out[j * problem.m + i] = in[i * problem.n + j];
                        }
                    });
                },
            .details = {}};
}

}  // namespace gpumat::transpose::cpu
