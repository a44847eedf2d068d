// The kernels of `outer-product` in AVX2 with FMA: 12 vectors of sums.
#ifdef __x86_64__
#include "kernels/common/intrinsics.hpp"
#include "kernels/multiply/cpu/micro_kernel.hpp"

namespace gpumat::multiply::cpu {
namespace {

struct Avx2 {
    static constexpr int kBytes = 32;
    using Words = Vector<std::uint32_t, 8>;

    GPUMAT_AVX2 static inline void widen(const Half* from, float* to) {
        _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
    }
    GPUMAT_AVX2 static inline void narrow(const float* from, Half* to) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
    }
    /// sum += the products of two pairs of 16 bits.
    GPUMAT_AVX2 static inline void add_dot(std::uint32_t a, const Words& b, Words& sum) {
        const __m256i pairs = _mm256_set1_epi32(static_cast<int>(a));
        sum += reinterpret_cast<Words>(_mm256_madd_epi16(pairs, reinterpret_cast<__m256i>(b)));
    }
};

template <class Tile>
GPUMAT_AVX2 void pack_a(const PackSource& from, std::byte* to) {
    pack_panels<typename Tile::A, Tile::kRows, AsPacked>(from, to);
}
template <class Tile>
GPUMAT_AVX2 void pack_b(const PackSource& from, std::byte* to) {
    pack_panels<typename Tile::B, Tile::kCols, typename Tile::FinishB>(from, to);
}
template <class Tile>
GPUMAT_AVX2 void multiply(std::int64_t lines, const std::byte* a, const std::byte* b, const Target& target) {
    multiply_tile<Tile>(lines, a, b, target);
}

template <class Tile>
Kernel kernel() {
    return kernel_of<Tile>(pack_a<Tile>, pack_b<Tile>, multiply<Tile>);
}

}  // namespace

Kernel avx2_kernel(Type type) {
    switch (type) {
        case Type::f32:
            return kernel<RealTile<Avx2, float, 4, 3>>();
        case Type::f64:
            return kernel<RealTile<Avx2, double, 4, 3>>();
        case Type::c64:
            return kernel<ComplexTile<Avx2, float, 6, 1>>();
        case Type::c128:
            return kernel<ComplexTile<Avx2, double, 6, 1>>();
        case Type::f16:
            return kernel<RealTile<Avx2, Half, 4, 3>>();
        case Type::bf16:
            return kernel<RealTile<Avx2, BFloat16, 4, 3>>();
        case Type::i32:
            return kernel<RealTile<Avx2, std::int32_t, 4, 2>>();
        case Type::i64:
        case Type::u64:
            return kernel<RealTile<Avx2, std::int64_t, 4, 2>>();
        default:
            return kernel<PairTile<Avx2, 4, 2>>();
    }
}

}  // namespace gpumat::multiply::cpu
#endif
