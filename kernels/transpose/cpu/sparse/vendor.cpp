// transpose of sparse matrices, CPU level `vendor`: GrB_transpose of SuiteSparse:GraphBLAS, what one would
// call instead.
//
// The library has indices of 64 bits and memory of its own; the copies to it and back are counted as part of
// the run. Values are moved as a type of their size.
#include <shared_mutex>

#include "core/forking.hpp"
#include "kernels/common/graphblas.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"

namespace gpumat::transpose::cpu::sparse {

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device) {
    const auto run = [problem, operands, threads = device.threads](Stream) {
        const std::shared_lock no_fork(forking);
        graphblas::set_threads(threads);
        const Type type = graphblas::moved_as(problem.type);
        const graphblas::Matrix a(type, operands.a, threads);
        graphblas::Matrix c(type, Shape{problem.n, problem.m});
        graphblas::transpose(c, a);
        c.move_to_csr(operands.c, threads);
    };
    return {.level = "vendor", .run = run, .details = {{"library version", graphblas::version()}}};
}

}  // namespace gpumat::transpose::cpu::sparse
