#pragma once

// What the matrix unit computes for the level `tensor`, one struct a type of arithmetic: how a thread's share
// of an operand comes out of shared memory, the instructions, and which elements of C the sums are.
//
// A warp works on groups of 16 rows and 16 columns of C. Its lanes are 8 rows (lane / 4, here `g`) of 4 (lane
// % 4, here `t`): the instruction gives lane (g, t) rows g and g + 8 of A in k = t, t + 4 …, column g of B in
// the same k, and columns 2t and 2t + 1 of C. Which row of a tile is called row g is free as long as C is
// written accordingly, and so is which k is called k, as long as A and B agree.
#include <cstdint>

#include "kernels/common/intrinsics.hpp"
#include "kernels/multiply/gpu/arithmetic.cuh"
#include "kernels/multiply/gpu/matrix_unit.cuh"
#include "kernels/multiply/gpu/tuning.hpp"

namespace gpumat::multiply::gpu {

/// How the lines of an operand lie in memory: along k, one a row of C (column, for B), or along the rows of C
/// (columns), one for each k.
enum class Form { along_k, across_k };

/// Elements of C that a group of 16 rows or columns has.
inline constexpr int kGroup = 16;
/// Bytes of the lines in shared memory that lie along k.
inline constexpr int kLineBytes = 128;
/// Shared memory is written and read in pieces of 16 bytes.
inline constexpr int kPieceBytes = 16;

/// A thread's part of groups of C is runs of consecutive elements.
template <class S, int kCount>
struct Run {
    S at[kCount];
};

// ---- Elements of 4 bytes and fewer ----

__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
#endif
}
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], std::uint32_t from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
#endif
}

#if __CUDA_ARCH__ >= 800
#define GPUMAT_MMA(shape_and_types, constraint)                                           \
    asm volatile("mma.sync.aligned." shape_and_types                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "                   \
                 "%1, %2, %3};"                                                           \
                 : constraint(c[0]), constraint(c[1]), constraint(c[2]), constraint(c[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#else
#define GPUMAT_MMA(shape_and_types, constraint) __trap()
#endif

/// The instruction for an element type: 16 rows and 8 columns by 32 bytes of k.
template <class Element>
struct Instruction;
template <>
struct Instruction<__half> {
    using Sum = float;
    __device__ static void run(Sum (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
        GPUMAT_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
    }
};
template <>
struct Instruction<__nv_bfloat16> {
    using Sum = float;
    __device__ static void run(Sum (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
        GPUMAT_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
    }
};
template <>
struct Instruction<Tf32> {
    using Sum = float;
    __device__ static void run(Sum (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
        GPUMAT_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
    }
};
template <>
struct Instruction<std::int8_t> {
    using Sum = std::uint32_t;
    __device__ static void run(Sum (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
        GPUMAT_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
    }
};
#undef GPUMAT_MMA

/// Elements of 1, 2 or 4 bytes: `ldmatrix` brings 8 × 8 matrices of 16-byte rows, and for 2 bytes can
/// transpose them on the way. A step is 32 bytes of k.
template <class E>
struct NarrowUnit {
    using Element = E;
    using Sum = typename Instruction<E>::Sum;
    static constexpr int kSize = static_cast<int>(sizeof(E));
    static constexpr int kStep = 32 / kSize;      ///< k of a step
    static constexpr int kBuffers = 2;            ///< of fragments
    static constexpr bool kAcrossK = kSize == 2;  ///< whether it takes operands across k
    static constexpr bool kPrefersAcrossAlong = false;
    static constexpr int kPasses = 1;  ///< over all of B
    static constexpr Cost kCost{.clocks = 0.06 * kSize, .bytes = sizeof(Sum)};

    struct A {
        std::uint32_t at[4];
    };
    struct B {
        std::uint32_t at[4];  // both steps of 16 bytes of the first 8 columns, then of the others
    };
    struct Sums {
        Sum at[2][4];  // of the first 8 columns, and of the others
    };

    /// Eight rows of 16 bytes that `ldmatrix` reads at once lie in different banks.
    static __host__ __device__ constexpr int swizzle(Form, int line) { return line & 7; }

    /// The lane's row of `ldmatrix`, in bytes from the start of a tile of lines of `line_bytes`.
    template <Form kForm, bool kIsA>
    static __device__ int place(int x, int line_bytes) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        const int low = lane % 8;
        const int middle = lane / 8 % 2;
        const int high = lane / 16;
        // A wants rows 0 to 7 and 8 to 15 of the first 16 bytes of k, then of the others; B both halves of k
        // of the first 8 columns, then of the others.
        const int half_x = kIsA ? middle : high;
        const int half_k = kIsA ? high : middle;
        if constexpr (kForm == Form::along_k) {
            return (x + half_x * 8 + low) * line_bytes + (half_k ^ low) * kPieceBytes;
        } else {
            const int piece = x * kSize / kPieceBytes + half_x;
            return (half_k * 8 + low) * line_bytes + (piece ^ low) * kPieceBytes;
        }
    }

    template <Form kForm, int kLine>
    static __device__ std::uint32_t address(std::uint32_t tile_and_place, int group, int step) {
        if constexpr (kForm == Form::along_k) {
            return (tile_and_place ^ static_cast<unsigned>(step * 32)) + group * (kGroup * kLine);
        } else {
            return (tile_and_place ^ static_cast<unsigned>(group % 4 * 32)) + group / 4 * 128 +
                   step * (kStep * kLine);
        }
    }

    template <Form kForm, int kLine>
    static __device__ void load(A& to, std::uint32_t from) {
        kForm == Form::along_k ? load_matrices(to.at, from) : load_matrices_transposed(to.at, from);
    }
    template <Form kForm, int kLine>
    static __device__ void load(B& to, std::uint32_t from) {
        kForm == Form::along_k ? load_matrices(to.at, from) : load_matrices_transposed(to.at, from);
    }

    static __device__ void prepare(int, A&) {}
    static __device__ void multiply(int, Sums& sums, const A& a, const B& b) {
        Instruction<E>::run(sums.at[0], a.at, b.at[0], b.at[1]);
        Instruction<E>::run(sums.at[1], a.at, b.at[2], b.at[3]);
    }

    static constexpr int kRuns = 1;  ///< in a row of a group
    static constexpr int kRun = 4;
    static __device__ int row(int half) { return static_cast<int>(threadIdx.x % 32) / 4 + half * 8; }
    static __device__ int col(int) {
        const int t = static_cast<int>(threadIdx.x) % 4;
        return t % 2 * 8 + t / 2 * 4;
    }
    /// Lanes t and t ^ 1 exchange halves, so that each has four columns side by side. All lanes must call it.
    static __device__ Run<Sum, kRun> run(const Sums& sums, int half, int) {
        const bool odd = threadIdx.x % 2 != 0;
        Run<Sum, kRun> result;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const Sum first = sums.at[0][2 * half + e];
            const Sum second = sums.at[1][2 * half + e];
            const Sum other = __shfl_xor_sync(0xffffffffU, odd ? first : second, 1);
            result.at[e] = odd ? other : first;
            result.at[2 + e] = odd ? second : other;
        }
        return result;
    }
};

// ---- f64 ----

/// Reads 16 bytes of shared memory.
__device__ inline double2 load_doubles(std::uint32_t from) {
    double2 value;
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(value.x), "=d"(value.y) : "r"(from));
    return value;
}

/// The same number in other registers. What a read of 16 bytes brings lies side by side, and where the
/// instruction wants it to lie elsewhere the compiler copies it anew for each instruction, with less time
/// than that takes. It does not know that this is a copy.
__device__ inline double apart(double value) {
    const auto zero = static_cast<int>(blockDim.y) - 1;  // blocks are rows of threads
    return __hiloint2double(__double2hiint(value) ^ zero, __double2loint(value) ^ zero);
}

/// The widest instruction that a depth in k allows where the architecture has it: 4, 8 or 16.
/// a: rows g and g + 8 of k = t, then of t + 4 …; b: k = t, t + 4 …
template <int kDepth>
__device__ inline void multiply_doubles(double (&c)[4], const double (&a)[kDepth / 2],
                                        const double (&b)[kDepth / 4]) {
#if __CUDA_ARCH__ >= 900
    if constexpr (kDepth == 4) {
        asm volatile(
            "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, "
            "%3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(b[0]));
    } else if constexpr (kDepth == 8) {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, "
            "%10, "
            "%11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
              "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
    }
#elif __CUDA_ARCH__ >= 800
#pragma unroll
    for (int k = 0; k < kDepth / 4; ++k) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                         : "d"(a[2 * k + half]), "d"(b[k]));
        }
    }
#else
    __trap();
#endif
}

/// f64. A thread reads 16 bytes at a time: two neighbours in k of one row, which are called k = t and t + 4,
/// or two neighbours in x of one k, which are called rows g and g + 8 (columns g of both halves). So rows 2g
/// and 2g + 1 of the tile are called g and g + 8 in both forms.
struct DoubleUnit {
    using Element = double;
    using Sum = double;
    static constexpr int kSize = 8;
    static constexpr int kStep = 8;
    static constexpr int kBuffers = 1;
    static constexpr bool kAcrossK = true;
    /// What is read across k for A, and along k for B, lies in registers as the instruction wants it.
    static constexpr bool kPrefersAcrossAlong = true;
    static constexpr int kPasses = 1;  ///< over all of B
    static constexpr Cost kCost{.clocks = 1, .bytes = sizeof(Sum)};

    struct A {
        double at[4];
    };
    struct B {
        double at[2][2];
    };
    struct Sums {
        double at[2][4];
    };

    /// The 8 lanes whose 16 bytes are read at once have two g and all t. Along k they read four pieces of
    /// lines 2g, across k two pieces of lines 2t.
    static __host__ __device__ constexpr int swizzle(Form form, int line) {
        return form == Form::along_k ? (line >> 1 & 1) << 2 : line & 6;
    }

    template <Form kForm, bool>
    static __device__ int place(int x, int line_bytes) {
        const int g = static_cast<int>(threadIdx.x % 32) / 4;
        const int t = static_cast<int>(threadIdx.x) % 4;
        if constexpr (kForm == Form::along_k) {
            return (x + 2 * g) * line_bytes + (t ^ swizzle(kForm, 2 * g)) * kPieceBytes;
        } else {
            return 2 * t * line_bytes + x * kSize + (g ^ swizzle(kForm, 2 * t)) * kPieceBytes;
        }
    }

    template <Form kForm, int kLine>
    static __device__ std::uint32_t address(std::uint32_t tile_and_place, int group, int step) {
        if constexpr (kForm == Form::along_k) {
            return (tile_and_place ^ static_cast<unsigned>(step * 64)) + group * (kGroup * kLine);
        } else {
            return tile_and_place + group * (kGroup * kSize) + step * (kStep * kLine);
        }
    }

    template <Form kForm, int kLine>
    static __device__ void load(A& to, std::uint32_t from) {
        const double2 first = load_doubles(from);
        const double2 second = load_doubles(from + kLine);
        if constexpr (kForm == Form::across_k) {
            to = {{first.x, first.y, second.x, second.y}};
        } else {
            to = {{apart(first.x), apart(second.x), apart(first.y), apart(second.y)}};
        }
    }
    template <Form kForm, int kLine>
    static __device__ void load(B& to, std::uint32_t from) {
        const double2 first = load_doubles(from);
        const double2 second = load_doubles(from + kLine);
        if constexpr (kForm == Form::along_k) {
            to = {{{first.x, first.y}, {second.x, second.y}}};
        } else {
            to = {{{apart(first.x), apart(second.x)}, {apart(first.y), apart(second.y)}}};
        }
    }

    static __device__ void prepare(int, A&) {}
    static __device__ void multiply(int, Sums& sums, const A& a, const B& b) {
        multiply_doubles<8>(sums.at[0], a.at, b.at[0]);
        multiply_doubles<8>(sums.at[1], a.at, b.at[1]);
    }

    static constexpr int kRuns = 1;
    static constexpr int kRun = 4;
    static __device__ int row(int half) { return static_cast<int>(threadIdx.x % 32) / 4 * 2 + half; }
    static __device__ int col(int) { return static_cast<int>(threadIdx.x) % 4 * 4; }
    static __device__ Run<Sum, kRun> run(const Sums& sums, int half, int) {
        return {sums.at[0][2 * half], sums.at[1][2 * half], sums.at[0][2 * half + 1],
                sums.at[1][2 * half + 1]};
    }
};

// ---- c128 ----

__device__ inline double negative(double value) {
    return __hiloint2double(static_cast<int>(static_cast<unsigned>(__double2hiint(value)) ^ 0x80000000U),
                            __double2loint(value));
}

/// c128: four real products of the planes of real and imaginary parts, into which numbers fall apart as they
/// are read, a number of 16 bytes at a time.
struct ComplexUnit {
    using Element = Complex<double>;
    using Sum = Complex<double>;
    static constexpr int kSize = 16;
    static constexpr int kStep = 8;
    static constexpr int kBuffers = 1;
    static constexpr bool kAcrossK = true;
    static constexpr bool kPrefersAcrossAlong = false;
    static constexpr int kPasses = 2;
    static constexpr Cost kCost{.clocks = 4, .bytes = sizeof(Sum)};

    struct A {
        double re[4];
        double im[4];
    };
    struct B {
        double re[2][2];
        double im[2][2];
    };
    struct Sums {
        double re[2][4];
        double im[2][4];
    };

    /// Along k 8 lanes read four pieces of two neighbouring lines, across k two pieces of four.
    static __host__ __device__ constexpr int swizzle(Form form, int line) {
        return form == Form::along_k ? (line & 1) << 2 : (line & 3) << 1;
    }

    template <Form kForm, bool>
    static __device__ int place(int x, int line_bytes) {
        const int g = static_cast<int>(threadIdx.x % 32) / 4;
        const int t = static_cast<int>(threadIdx.x) % 4;
        if constexpr (kForm == Form::along_k) {
            return (x + g) * line_bytes + (t ^ swizzle(kForm, g)) * kPieceBytes;
        } else {
            return t * line_bytes + x * kSize + (g ^ swizzle(kForm, t)) * kPieceBytes;
        }
    }

    template <Form kForm, int kLine>
    static __device__ std::uint32_t address(std::uint32_t tile_and_place, int group, int) {
        return tile_and_place + group * (kForm == Form::along_k ? kGroup * kLine : kGroup * kSize);
    }

    /// The number in row (column) g + 8·half and k = t + 4·quad of a group.
    template <Form kForm, int kLine>
    static __device__ double2 at(std::uint32_t from, int half, int quad) {
        if constexpr (kForm == Form::along_k) return load_doubles((from ^ quad * 64U) + half * (8 * kLine));
        return load_doubles(from + half * (8 * kSize) + quad * (4 * kLine));
    }
    template <Form kForm, int kLine>
    static __device__ void load(A& to, std::uint32_t from) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const double2 value = at<kForm, kLine>(from, e % 2, e / 2);
            to.re[e] = apart(value.x);
            to.im[e] = apart(value.y);
        }
    }
    template <Form kForm, int kLine>
    static __device__ void load(B& to, std::uint32_t from) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const double2 value = at<kForm, kLine>(from, e / 2, e % 2);
            to.re[e / 2][e % 2] = apart(value.x);
            to.im[e / 2][e % 2] = apart(value.y);
        }
    }

    /// The products of the second pass, im·im, count negative.
    static __device__ void prepare(int pass, A& a) {
        if (pass == 0) return;
#pragma unroll
        for (double& value : a.im) value = negative(value);
    }
    static __device__ void multiply(int pass, Sums& sums, const A& a, const B& b) {
        if (pass == 0) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                multiply_doubles<8>(sums.re[i], a.re, b.re[i]);
                multiply_doubles<8>(sums.im[i], a.re, b.im[i]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) multiply_doubles<8>(sums.im[i], a.im, b.re[i]);
        } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) multiply_doubles<8>(sums.re[i], a.im, b.im[i]);
        }
    }

    static constexpr int kRuns = 2;
    static constexpr int kRun = 2;
    static __device__ int row(int half) {
        return static_cast<int>(threadIdx.x % 32) / 4 + half * 8;
    }
    static __device__ int col(int run) {
        return run * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
    }
    static __device__ Run<Sum, kRun> run(const Sums& sums, int half, int run) {
        return {{{sums.re[run][2 * half], sums.im[run][2 * half]},
                 {sums.re[run][2 * half + 1], sums.im[run][2 * half + 1]}}};
    }
};

}  // namespace gpumat::multiply::gpu
