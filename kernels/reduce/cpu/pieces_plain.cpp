// Pieces of a matrix, reduced in the instructions that every processor of the platform has.
#include "kernels/reduce/cpu/work.hpp"

namespace gpumat::reduce::cpu {
namespace {

template <class A>
struct Plain {
    using Its = Work<A, 16>;

    static void add_row(const void* row, std::int64_t elements, const Mirror& mirror, AnyTotal& total) {
        Its::add_row(row, elements, mirror, total);
    }
    static void add_columns(const Piece& piece, const Mirror& mirror, AnyTotal* totals) {
        Its::add_columns(piece, mirror, totals);
    }
};

}  // namespace

Vectors plain_vectors(const Problem& problem) {
    return visit_accumulator(problem, []<class A>(A) { return vectors_in<Plain<A>>(); });
}

}  // namespace gpumat::reduce::cpu
