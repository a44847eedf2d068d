#pragma once

// What a thread of the level `pipelined` multiplies in one step of k: a column of its rows of A and a row of
// its columns of B, in two buffers, of which one is read from shared memory while the other is used.
//
// Multiply-adds go back and forth along one operand, so that one reads its sum and one new operand, and finds
// the other in the register file's reuse cache: two reads a clock are all that its two banks can give.
// Complex products are four such passes along a, two with the real part of b and two with its imaginary part,
// so that no multiply-add waits for the one before it.
#include "kernels/multiply/gpu/tile_work.cuh"

namespace gpumat::multiply::gpu {

/// Reads kCount elements that lie in groups of 16 bytes, kStride bytes apart.
template <int kStride, class E, int kCount>
__device__ inline void read_groups(E (&to)[kCount], std::uint32_t from) {
    constexpr int kGroup = 16 / static_cast<int>(sizeof(E));
    static_assert(kCount % kGroup == 0, "whole groups");
#pragma unroll
    for (int g = 0; g < kCount / kGroup; ++g) {
        E group[kGroup];
        read_vector(group, from + g * kStride);
#pragma unroll
        for (int e = 0; e < kGroup; ++e) to[g * kGroup + e] = group[e];
    }
}

/// Calls visit(i) for each row of a thread tile: upwards where `down` is false.
template <int kRows, class Visit>
__device__ inline void walk(bool down, Visit visit) {
#pragma unroll
    for (int step = 0; step < kRows; ++step) visit(down ? step : kRows - 1 - step);
}

/// Elements of both operands as they are. Multiply-adds go along a, or with kAlongRows along b.
template <class T, Tile kTile, bool kAlongRows = false>
struct Fragments {
    using S = Sum<T>;
    using Place = ThreadPlace<T, kTile>;
    S a[2][kTile.tm];
    S b[2][kTile.tn];

    /// Reads a buffer. The addresses are those in shared memory of the thread's first elements in a row of
    /// each operand's tile.
    __device__ void read(int buffer, std::uint32_t a_row, std::uint32_t b_row) {
        if constexpr (kAlongRows) {
            read_groups<Place::kLanesN * 16>(b[buffer], b_row);
            read_groups<Place::kLanesM * 16>(a[buffer], a_row);
        } else {
            read_groups<Place::kLanesM * 16>(a[buffer], a_row);
            read_groups<Place::kLanesN * 16>(b[buffer], b_row);
        }
    }

    /// Adds the products of a buffer to the sums.
    __device__ void multiply(int buffer, S (&sums)[kTile.tm][kTile.tn]) const {
        if constexpr (kAlongRows) {
            multiply_rows(buffer, sums);
        } else {
            multiply_columns(buffer, sums);
        }
    }

  private:
    /// Of many orders of the rows, and ends at which each begins, that for which the compiler's registers
    /// collide least (README.md).
    __device__ void multiply_rows(int buffer, S (&sums)[kTile.tm][kTile.tn]) const {
        static_assert(!kIsComplex<S> && kTile.tm % 2 == 0, "rows are exchanged in pairs");
#pragma unroll
        for (int turn = 0; turn < kTile.tm; ++turn) {
            const int i = turn ^ buffer;
            const S with = a[buffer][i];
            walk<kTile.tn>((turn + buffer) % 2 == 0,
                           [&](int j) { sums[i][j] = multiply_add(with, b[buffer][j], sums[i][j]); });
        }
    }

    __device__ void multiply_columns(int buffer, S (&sums)[kTile.tm][kTile.tn]) const {
#pragma unroll
        for (int j = 0; j < kTile.tn; ++j) {
            const S with = b[buffer][j];
            walk<kTile.tm>(j % 2 == 0,
                           [&](int i) { sums[i][j] = multiply_add_first(a[buffer][i], with, sums[i][j]); });
            if constexpr (kIsComplex<S>) {
                walk<kTile.tm>(j % 2 != 0, [&](int i) {
                    sums[i][j] = multiply_add_second(a[buffer][i], with, sums[i][j]);
                });
            }
        }
    }
};

/// Complex products whose A lies in planes: for each k a row of real parts, then a row of imaginary ones.
/// Both parts of an element come to registers of the same bank then, and a sum, which meets both, has to lie
/// in the other bank only.
template <class T, Tile kTile>
struct PlanarFragments {
    using S = Sum<T>;
    using R = RealOf<S>;
    using Place = ThreadPlace<T, kTile, 16 / static_cast<int>(sizeof(R))>;
    R a[2][2][kTile.tm];
    S b[2][kTile.tn];

    /// Like Fragments::read; the row of imaginary parts follows that of real ones.
    __device__ void read(int buffer, std::uint32_t a_row, std::uint32_t b_row) {
        constexpr int kPlane = kTile.bm * static_cast<int>(sizeof(R));
        read_groups<Place::kLanesM * 16>(a[buffer][0], a_row);
        read_groups<Place::kLanesM * 16>(a[buffer][1], a_row + kPlane);
        read_groups<Place::kLanesN * 16>(b[buffer], b_row);
    }

    /// Adds the products of a buffer to the sums, in the order of multiply_add.
    __device__ void multiply(int buffer, S (&sums)[kTile.tm][kTile.tn]) const {
        multiply_part<0>(buffer, sums);
        multiply_part<1>(buffer, sums);
    }

  private:
    /// The products with the real parts of b (kPart 0) or the imaginary ones (1). Planes of a change at every
    /// other turn only, so that its elements are in the reuse cache when those of b change.
    template <int kPart>
    __device__ void multiply_part(int buffer, S (&sums)[kTile.tm][kTile.tn]) const {
#pragma unroll
        for (int j = 0; j < kTile.tn; ++j) {
            const R with = kPart == 0 ? b[buffer][j].re : b[buffer][j].im;
#pragma unroll
            for (int turn = 0; turn < 2; ++turn) {
                const int plane = (turn + j) % 2;
                walk<kTile.tm>(turn == 0, [&](int i) {
                    R& sum = plane == kPart ? sums[i][j].re : sums[i][j].im;
                    const R element = a[buffer][plane][i];
                    sum = multiply_add(plane + kPart == 2 ? -element : element, with, sum);
                });
            }
        }
    }
};

}  // namespace gpumat::multiply::gpu
