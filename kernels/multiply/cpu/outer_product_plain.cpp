// The kernels of `outer-product` in what every processor of the platform has: 8 vectors of 16 bytes of sums.
#include "kernels/common/intrinsics.hpp"
#include "kernels/multiply/cpu/micro_kernel.hpp"

namespace gpumat::multiply::cpu {
namespace {

struct Plain {
    static constexpr int kBytes = 16;
    using Words = Vector<std::uint32_t, 4>;

    static GPUMAT_INLINE void widen(const Half* from, float* to) {
        for (int i = 0; i < 4; ++i) to[i] = static_cast<float>(from[i]);
    }
    static GPUMAT_INLINE void narrow(const float* from, Half* to) {
        for (int i = 0; i < 4; ++i) to[i] = Half(static_cast<double>(from[i]));
    }
    /// sum += the products of two pairs of 16 bits.
    static GPUMAT_INLINE void add_dot(std::uint32_t a, const Words& b, Words& sum) {
#ifdef __x86_64__
        const __m128i pairs = _mm_set1_epi32(static_cast<int>(a));
        sum += reinterpret_cast<Words>(_mm_madd_epi16(pairs, reinterpret_cast<__m128i>(b)));
#else
        const auto low = static_cast<std::uint32_t>(static_cast<std::int16_t>(a & 0xffffU));
        const auto high = static_cast<std::uint32_t>(static_cast<std::int32_t>(a) >> 16);
        const auto pairs = reinterpret_cast<Vector<std::int32_t, 4>>(b);
        sum += low * reinterpret_cast<Words>(pairs << 16 >> 16) + high * reinterpret_cast<Words>(pairs >> 16);
#endif
    }
};

template <class Tile>
void pack_a(const PackSource& from, std::byte* to) {
    pack_panels<typename Tile::A, Tile::kRows, AsPacked>(from, to);
}
template <class Tile>
void pack_b(const PackSource& from, std::byte* to) {
    pack_panels<typename Tile::B, Tile::kCols, typename Tile::FinishB>(from, to);
}
template <class Tile>
void multiply(std::int64_t lines, const std::byte* a, const std::byte* b, const Target& target) {
    multiply_tile<Tile>(lines, a, b, target);
}

template <class Tile>
Kernel kernel() {
    return kernel_of<Tile>(pack_a<Tile>, pack_b<Tile>, multiply<Tile>);
}

}  // namespace

Kernel plain_kernel(Type type) {
    switch (type) {
        case Type::f32:
            return kernel<RealTile<Plain, float, 4, 2>>();
        case Type::f64:
            return kernel<RealTile<Plain, double, 4, 2>>();
        case Type::c64:
            return kernel<ComplexTile<Plain, float, 4, 1>>();
        case Type::c128:
            return kernel<ComplexTile<Plain, double, 4, 1>>();
        case Type::f16:
            return kernel<RealTile<Plain, Half, 4, 2>>();
        case Type::bf16:
            return kernel<RealTile<Plain, BFloat16, 4, 2>>();
        case Type::i32:
            return kernel<RealTile<Plain, std::int32_t, 4, 2>>();
        case Type::i64:
        case Type::u64:
            return kernel<RealTile<Plain, std::int64_t, 4, 2>>();
        default:
            return kernel<PairTile<Plain, 4, 2>>();
    }
}

}  // namespace gpumat::multiply::cpu
