// transpose, CPU level `serial`: one thread walks the input row by row.
//
// Traffic: every element is read once in order and written once with a stride of m elements, so each
// write touches another cache line, and another page once m·size passes 4 KiB. What limits it: cache and
// TLB misses on the write side, on one core.
#include <utility>

#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::cpu {
namespace {

template <class T>
void transpose(const T* in, std::int64_t in_pitch, T* out, std::int64_t out_pitch, std::int64_t m,
               std::int64_t n) {
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) out[j * out_pitch + i] = in[i * in_pitch + j];
    }
}

template <class T>
void transpose_in_place(T* matrix, std::int64_t pitch, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = i + 1; j < n; ++j) std::swap(matrix[i * pitch + j], matrix[j * pitch + i]);
    }
}

}  // namespace

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = "serial",
            .run =
                [problem, operands](Stream) {
                    visit_element(problem.type, [&]<class T>(TypeTag<T>) {
                        auto* out = operands.c.as<T>();
                        if (problem.in_place) {
                            transpose_in_place(out, operands.c.pitch, problem.n);
                        } else {
                            transpose(operands.a.as<T>(), operands.a.pitch, out, operands.c.pitch, problem.m,
                                      problem.n);
                        }
                    });
                },
            .details = {}};
}

}  // namespace gpumat::transpose::cpu
