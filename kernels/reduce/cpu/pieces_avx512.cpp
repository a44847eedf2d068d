// Pieces of a matrix, reduced in AVX-512.
#include "kernels/common/intrinsics.hpp"
#include "kernels/reduce/cpu/work.hpp"

#ifdef __x86_64__
namespace gpumat::reduce::cpu {
namespace {

template <class A>
struct Avx512 {
    using Its = Work<A, 64>;

    GPUMAT_AVX512 static void add_row(const void* row, std::int64_t elements, const Mirror& mirror,
                                      AnyTotal& total) {
        Its::add_row(row, elements, mirror, total);
    }
    GPUMAT_AVX512 static void add_columns(const Piece& piece, const Mirror& mirror, AnyTotal* totals) {
        Its::add_columns(piece, mirror, totals);
    }
};

}  // namespace

Vectors avx512_vectors(const Problem& problem) {
    return visit_accumulator(problem, []<class A>(A) { return vectors_in<Avx512<A>>(); });
}

}  // namespace gpumat::reduce::cpu
#endif
