// The kernels of `outer-product` in AVX-512: 24 vectors of sums, two (complex: four) of a line of B.
#ifdef __x86_64__
#include "kernels/common/intrinsics.hpp"
#include "kernels/multiply/cpu/micro_kernel.hpp"

namespace gpumat::multiply::cpu {
namespace {

struct Avx512 {
    static constexpr int kBytes = 64;
    using Words = Vector<std::uint32_t, 16>;

    GPUMAT_AVX512 static inline void widen(const Half* from, float* to) {
        _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
    }
    GPUMAT_AVX512 static inline void narrow(const float* from, Half* to) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
    }
    /// sum += the products of two pairs of 16 bits.
    GPUMAT_AVX512 static inline void add_dot(std::uint32_t a, const Words& b, Words& sum) {
        const __m512i pairs = _mm512_set1_epi32(static_cast<int>(a));
        sum += reinterpret_cast<Words>(_mm512_madd_epi16(pairs, reinterpret_cast<__m512i>(b)));
    }
};

#define GPUMAT_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

struct Vnni : Avx512 {
    /// sum += the products of four bytes, of which those of `a` are unsigned.
    GPUMAT_VNNI static inline void add_dot(std::uint32_t a, const Words& b, Words& sum) {
        const __m512i bytes = _mm512_set1_epi32(static_cast<int>(a));
        sum = reinterpret_cast<Words>(
            _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum), bytes, reinterpret_cast<__m512i>(b)));
    }
};

template <class Tile>
GPUMAT_AVX512 void pack_a(const PackSource& from, std::byte* to) {
    pack_panels<typename Tile::A, Tile::kRows, AsPacked>(from, to);
}
template <class Tile>
GPUMAT_AVX512 void pack_b(const PackSource& from, std::byte* to) {
    pack_panels<typename Tile::B, Tile::kCols, typename Tile::FinishB>(from, to);
}
template <class Tile>
GPUMAT_AVX512 void multiply(std::int64_t lines, const std::byte* a, const std::byte* b,
                            const Target& target) {
    multiply_tile<Tile>(lines, a, b, target);
}
template <class Tile>
GPUMAT_VNNI void multiply_vnni(std::int64_t lines, const std::byte* a, const std::byte* b,
                               const Target& target) {
    multiply_tile<Tile>(lines, a, b, target);
}

template <class Tile>
Kernel kernel() {
    return kernel_of<Tile>(pack_a<Tile>, pack_b<Tile>, multiply<Tile>);
}

}  // namespace

Kernel avx512_kernel(Type type) {
    switch (type) {
        case Type::f32:
            return kernel<RealTile<Avx512, float, 12, 2>>();
        case Type::f64:
            return kernel<RealTile<Avx512, double, 12, 2>>();
        case Type::c64:
            return kernel<ComplexTile<Avx512, float, 6, 2>>();
        case Type::c128:
            return kernel<ComplexTile<Avx512, double, 6, 2>>();
        case Type::f16:
            return kernel<RealTile<Avx512, Half, 12, 2>>();
        case Type::bf16:
            return kernel<RealTile<Avx512, BFloat16, 12, 2>>();
        case Type::i32:
            return kernel<RealTile<Avx512, std::int32_t, 12, 2>>();
        case Type::i64:
        case Type::u64:
            return kernel<RealTile<Avx512, std::int64_t, 12, 2>>();
        default:
            break;
    }
    if (!__builtin_cpu_supports("avx512vnni")) return kernel<PairTile<Avx512, 12, 2>>();
    using Tile = QuadTile<Vnni, 12, 2>;
    return kernel_of<Tile>(pack_a<Tile>, pack_b<Tile>, multiply_vnni<Tile>);
}

}  // namespace gpumat::multiply::cpu
#endif
