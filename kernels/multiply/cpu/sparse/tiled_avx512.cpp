// The loops of `tiled` in AVX-512.
#ifdef __x86_64__
#include "kernels/common/intrinsics.hpp"
#include "kernels/multiply/cpu/sparse/stripes.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

struct Avx512 {
    static constexpr int kBytes = 64;

    GPUMAT_AVX512 static inline void stream(const void* from, void* to, std::size_t bytes) {
        const auto* const vectors = static_cast<const __m512i*>(from);
        for (std::size_t at = 0; at < bytes / kBytes; ++at)
            _mm512_stream_si512(static_cast<__m512i*>(to) + at, _mm512_load_si512(vectors + at));
    }
    /// Streaming stores are not ordered with what other threads do next.
    GPUMAT_AVX512 static inline void finish() { _mm_sfence(); }
};

template <class T>
GPUMAT_AVX512 void multiply_avx512(const TiledWork& work, const Piece& piece, void* part_sums) {
    multiply_piece<Avx512, T>(work, piece, part_sums);
}

}  // namespace

MultiplyPiece avx512_piece(Type type) {
    MultiplyPiece piece = nullptr;
    visit_multiply_type(type, [&]<class T>(TypeTag<T>) { piece = multiply_avx512<T>; });
    return piece;
}

}  // namespace gpumat::multiply::cpu::sparse
#endif
