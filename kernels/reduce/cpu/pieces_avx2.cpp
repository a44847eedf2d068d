// Pieces of a matrix, reduced in AVX2.
#include "kernels/common/intrinsics.hpp"
#include "kernels/reduce/cpu/work.hpp"

#ifdef __x86_64__
namespace gpumat::reduce::cpu {
namespace {

template <class A>
struct Avx2 {
    using Its = Work<A, 32>;

    GPUMAT_AVX2 static void add_row(const void* row, std::int64_t elements, const Mirror& mirror,
                                    AnyTotal& total) {
        Its::add_row(row, elements, mirror, total);
    }
    GPUMAT_AVX2 static void add_columns(const Piece& piece, const Mirror& mirror, AnyTotal* totals) {
        Its::add_columns(piece, mirror, totals);
    }
};

}  // namespace

Vectors avx2_vectors(const Problem& problem) {
    return visit_accumulator(problem, []<class A>(A) { return vectors_in<Avx2<A>>(); });
}

}  // namespace gpumat::reduce::cpu
#endif
