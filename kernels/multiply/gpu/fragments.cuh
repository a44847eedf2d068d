#pragma once

// What a thread of the level `pipelined` multiplies in one step of k: a column of its rows of A and a row of
// its columns of B, in two buffers, of which one is read from shared memory while the other is used; less of
// them at a time where sums leave no registers for that.
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

/// Where a row of each operand's tile has the thread's first elements: addresses in shared memory. B comes
/// first for the registers that the compiler then takes for RollingFragments.
struct Rows {
    std::uint32_t b;
    std::uint32_t a;

    /// The rows of `k` steps later.
    template <class Shape>
    [[nodiscard]] __device__ Rows after(int k) const {
        return {b + k * Shape::kRowB, a + k * Shape::kRowA};
    }
};

/// An iteration of the inner loop: adds the products of Shape::kUnrolled k, an even number, to the sums. The
/// first has been read from `rows`; the one after the last is read from the rows that next() returns once
/// they are there.
template <class Shape, class Fragments, class Next, class Sums>
__device__ __forceinline__ void buffered_iteration(Fragments& fragments, Rows rows, Next next, Sums& sums) {
    static_assert(Shape::kUnrolled % 2 == 0, "the next iteration starts with buffer 0");
#pragma unroll
    for (int k = 0; k < Shape::kUnrolled; ++k) {
        fragments.read((k + 1) % 2, k + 1 < Shape::kUnrolled ? rows.after<Shape>(k + 1) : next());
        fragments.multiply(k % 2, sums);
    }
}

/// Elements of both operands as they are. Multiply-adds go along a, or with kAlongRows along b.
template <class T, Tile kTile, bool kAlongRows = false>
struct Fragments {
    using S = Sum<T>;
    using Place = ThreadPlace<T, kTile>;
    S a[2][kTile.tm];
    S b[2][kTile.tn];

    /// Reads a buffer.
    __device__ void read(int buffer, Rows rows) {
        if constexpr (kAlongRows) {
            read_groups<Place::kLanesN * 16>(b[buffer], rows.b);
            read_groups<Place::kLanesM * 16>(a[buffer], rows.a);
        } else {
            read_groups<Place::kLanesM * 16>(a[buffer], rows.a);
            read_groups<Place::kLanesN * 16>(b[buffer], rows.b);
        }
    }

    /// Reads the first k.
    __device__ void start(Rows first) { read(0, first); }

    template <class Shape, class Next>
    __device__ void iterate(Rows rows, Next next, S (&sums)[kTile.tm][kTile.tn]) {
        buffered_iteration<Shape>(*this, rows, next, sums);
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

template <int... kIndices, class Visit>
__device__ __forceinline__ void unrolled(std::integer_sequence<int, kIndices...>, Visit visit) {
    (visit(std::integral_constant<int, kIndices>{}), ...);
}

/// Calls visit with the constants 0 … kCount − 1. Arrays whose elements are named by constants become
/// registers early in compilation. After `#pragma unroll` they do late, in another order, and half of the
/// multiply-adds of RollingFragments then collide in the register file.
template <int kCount, class Visit>
__device__ __forceinline__ void unrolled(Visit visit) {
    unrolled(std::make_integer_sequence<int, kCount>{}, visit);
}

/// Place `turn` of kCount: upwards where `line` is odd, else downwards.
template <int kCount>
__device__ constexpr int back_and_forth(int line, int turn) {
    return line % 2 != 0 ? turn : kCount - 1 - turn;
}

/// A column of A and four elements of a row of B at a time, for thread tiles whose sums leave no registers
/// for two buffers of both. Of B the next four are read while four are used. A has one buffer: the last four
/// columns of the thread tile go row by row, and rows that have had their turn are replaced by those of the
/// next k.
template <class T, Tile kTile>
struct RollingFragments {
    using S = Sum<T>;
    using Place = ThreadPlace<T, kTile>;
    static_assert(sizeof(S) == 4, "four elements are a group of 16 bytes");
    static_assert(kTile.tm % 4 == 0 && kTile.tn % 4 == 0, "rows and columns are whole groups");
    static constexpr int kGroups = kTile.tn / 4;
    S a[kTile.tm];
    S b[2][4];

    /// Reads what the first k needs.
    __device__ void start(Rows first) {
        read_groups<Place::kLanesM * 16>(a, first.a);
        read_b(0, first.b, 0);
    }

    /// Like buffered_iteration, but that of the first k only the elements of A and the first four of B have
    /// been read: the others are read now, from `rows`.
    template <class Shape, class Next>
    __device__ void iterate(Rows rows, Next next, S (&sums)[kTile.tm][kTile.tn]) {
        static_assert(Shape::kUnrolled * kGroups % 2 == 0, "the next iteration starts with buffer 0 of B");
        unrolled<Shape::kUnrolled>([&](auto k) {
            constexpr bool kLast = k + 1 == Shape::kUnrolled;
            step<k>(rows.after<Shape>(k), kLast ? next() : rows.after<Shape>(k + 1), sums);
        });
    }

  private:
    /// Adds the products of one k to the sums, while elements of the next are read. Rows are exchanged in
    /// pairs, or where k is odd reversed in fours, and so stay in the group that read_a replaces: one of many
    /// orders, for which the compiler's registers collide little (README.md).
    template <int kK>
    __device__ void step(Rows rows, Rows next, S (&sums)[kTile.tm][kTile.tn]) {
        constexpr int kOrder = kK % 2 == 0 ? 1 : 3;
        unrolled<kGroups>([&](auto group) {
            constexpr int kBuffer = (group + kK * kGroups) % 2;
            const auto add = [&](int i, int j) {
                S& sum = sums[i ^ kOrder][4 * group + j];
                sum = multiply_add(b[kBuffer][j], a[i ^ kOrder], sum);
            };
            if constexpr (group + 1 < kGroups) {
                unrolled<4>([&](auto j) {
                    unrolled<kTile.tm>([&](auto turn) { add(back_and_forth<kTile.tm>(j, turn), j); });
                    if constexpr (j == 0) read_b(1 - kBuffer, rows.b, group + 1);
                });
            } else {
                // Other columns are done with A, and with the other buffer of B.
                unrolled<kTile.tm>([&](auto i) {
                    unrolled<4>([&](auto turn) { add(i, back_and_forth<4>(i, turn)); });
                    if constexpr (i == 3) read_b(1 - kBuffer, next.b, 0);
                    if constexpr (i % 4 == 3) read_a(i / 4, next.a);
                });
            }
        });
    }

    __device__ void read_a(int group, std::uint32_t a_row) {
        S rows[4];
        read_vector(rows, a_row + group * Place::kLanesM * 16);
#pragma unroll
        for (int r = 0; r < 4; ++r) a[4 * group + r] = rows[r];
    }
    __device__ void read_b(int buffer, std::uint32_t b_row, int group) {
        read_vector(b[buffer], b_row + group * Place::kLanesN * 16);
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
    __device__ void read(int buffer, Rows rows) {
        constexpr int kPlane = kTile.bm * static_cast<int>(sizeof(R));
        read_groups<Place::kLanesM * 16>(a[buffer][0], rows.a);
        read_groups<Place::kLanesM * 16>(a[buffer][1], rows.a + kPlane);
        read_groups<Place::kLanesN * 16>(b[buffer], rows.b);
    }

    __device__ void start(Rows first) { read(0, first); }

    template <class Shape, class Next>
    __device__ void iterate(Rows rows, Next next, S (&sums)[kTile.tm][kTile.tn]) {
        buffered_iteration<Shape>(*this, rows, next, sums);
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
