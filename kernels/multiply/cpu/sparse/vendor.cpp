// multiply of sparse matrices, CPU level `vendor`: GrB_mxm of SuiteSparse:GraphBLAS, what one would call
// instead.
//
// A dense result is a full matrix of zeros to which the product is added, which the library is fastest at.
// It has indices of 64 bits and memory of its own; the copies to it and back are counted as part of the run.
#include <shared_mutex>

#include "core/forking.hpp"
#include "kernels/common/graphblas.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

void multiply_by_library(const Problem& problem, const Operands& operands, int threads) {
    const std::shared_lock no_fork(forking);
    graphblas::set_threads(threads);
    const graphblas::Matrix a(problem.type, operands.a, threads);
    const graphblas::Matrix b(problem.type, operands.b, threads);
    const Shape shape{problem.m, problem.n};
    if (problem.structure.result == Storage::dense) {
        auto c = graphblas::Matrix::zeros(problem.type, shape);
        if (shape.rows == 0 || shape.cols == 0) return;
        graphblas::multiply(c, a, b, problem, true);
        return c.move_to(operands.c, threads);
    }
    graphblas::Matrix c(problem.type, shape);
    graphblas::multiply(c, a, b, problem, false);
    c.move_to_csr(operands.room->take(c.entries()), threads);
}

}  // namespace

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device) {
    return {.level = "vendor",
            .run = [problem, operands,
                    threads = device.threads](Stream) { multiply_by_library(problem, operands, threads); },
            .details = {{"library version", graphblas::version()}}};
}

}  // namespace gpumat::multiply::cpu::sparse
