// The loops of `tiled` in AVX2 with FMA.
#ifdef __x86_64__
#include "kernels/common/intrinsics.hpp"
#include "kernels/multiply/cpu/sparse/stripes.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

struct Avx2 {
    static constexpr int kBytes = 32;

    GPUMAT_AVX2 static inline void stream(const void* from, void* to, std::size_t bytes) {
        const auto* const vectors = static_cast<const __m256i*>(from);
        for (std::size_t at = 0; at < bytes / kBytes; ++at)
            _mm256_stream_si256(static_cast<__m256i*>(to) + at, _mm256_load_si256(vectors + at));
    }
    /// Streaming stores are not ordered with what other threads do next.
    GPUMAT_AVX2 static inline void finish() { _mm_sfence(); }
};

template <class T>
GPUMAT_AVX2 void multiply_avx2(const TiledWork& work, const Piece& piece, void* part_sums) {
    multiply_piece<Avx2, T>(work, piece, part_sums);
}

}  // namespace

MultiplyPiece avx2_piece(Type type) {
    MultiplyPiece piece = nullptr;
    visit_multiply_type(type, [&]<class T>(TypeTag<T>) { piece = multiply_avx2<T>; });
    return piece;
}

}  // namespace gpumat::multiply::cpu::sparse
#endif
