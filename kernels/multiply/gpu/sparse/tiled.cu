// sparse × dense, GPU level `tiled`: a lane has a word of 16 bytes of a row of B and the sums for it in
// registers, and where B has few columns several entries of A are in work at once.
//
// Since `merge`: a load of B brings 4 elements of f32 instead of one, and lanes that have no column of their
// own take the next entry, so that more rows of B are on their way. What limits it: the rows of B that are
// gathered, from L2 or device memory.
//
// Where the rows of B are no whole words of 16 bytes, a lane has one element.
//
// Source of the idea: row splitting with vector loads (Yang, Buluç and Owens 2018).
#include "kernels/multiply/gpu/sparse/levels.hpp"
#include "kernels/multiply/gpu/sparse/shares.cuh"

namespace gpumat::multiply::gpu::sparse {
namespace {

template <class T, int COLUMNS>
struct alignas(COLUMNS * sizeof(T)) Word {
    T elements[COLUMNS];
};

/// The value that another lane has, the lanes exchanged by pairs `distance` apart.
template <class S>
__device__ __forceinline__ S exchanged(S value, int distance) {
    return __shfl_xor_sync(~0U, value, distance);
}
template <class R>
__device__ __forceinline__ Complex<R> exchanged(Complex<R> value, int distance) {
    return {__shfl_xor_sync(~0U, value.re, distance), __shfl_xor_sync(~0U, value.im, distance)};
}

/// `lanes` of a warp (a power of two) have the columns of a panel; the others have them too, for other
/// entries.
template <class T, int COLUMNS>
struct WordWalker {
    static constexpr int kColumns = COLUMNS;
    int lanes;

    [[nodiscard]] __host__ __device__ std::int64_t panels(std::int64_t n) const {
        return (n + lanes * kColumns - 1) / (lanes * kColumns);
    }
    [[nodiscard]] __device__ int lane() const { return static_cast<int>(threadIdx.x) % kWarp; }
    [[nodiscard]] __device__ bool owns() const { return lane() < lanes; }
    [[nodiscard]] __device__ std::int64_t column(std::int64_t panel, int c) const {
        return (panel * lanes + lane() % lanes) * kColumns + c;
    }

    template <class I>
    __device__ void add(const Arguments<T>& p, const Rows<T, I>& a, std::int64_t begin, std::int64_t end,
                        std::int64_t panel, Sum<T>* sums) const {
        const std::int64_t j = column(panel, 0);
        const int group = lane() / lanes;
        const int groups = kWarp / lanes;
        for (std::int64_t first = begin; first < end; first += kWarp) {
            const int count = static_cast<int>(end - first < kWarp ? end - first : kWarp);
            const std::int64_t mine = first + (lane() < count ? lane() : 0);
            const I row = a.columns[mine];
            const Sum<T> value = to_sum(a.values[mine]);
#pragma unroll 4
            for (int e = 0; e < count; e += groups) {
                const I row_of_b = __shfl_sync(~0U, row, e + group);
                const Sum<T> factor = from_lane(value, e + group);
                if (e + group >= count || j >= p.n) continue;
                const auto word = *reinterpret_cast<const Word<T, kColumns>*>(p.b.at(row_of_b, j));
#pragma unroll
                for (int c = 0; c < kColumns; ++c)
                    sums[c] = multiply_add(factor, to_sum(word.elements[c]), sums[c]);
            }
        }
    }

    /// The sums of all groups, in all of them.
    template <class S>
    __device__ void complete(S* sums) const {
        for (int distance = lanes; distance < kWarp; distance *= 2) {
#pragma unroll
            for (int c = 0; c < kColumns; ++c) sums[c] = sums[c] + exchanged(sums[c], distance);
        }
    }
};

int lanes_for(std::int64_t words) {
    int lanes = 1;
    while (lanes < kWarp && lanes < words) lanes *= 2;
    return lanes;
}

bool has_words(const Problem& problem, const Operand& b) {
    constexpr std::size_t kWordBytes = 16;
    const auto in_words = [&](std::int64_t elements) {
        return static_cast<std::size_t>(elements) * size_of(problem.type) % kWordBytes == 0;
    };
    return !problem.transpose_b && reinterpret_cast<std::uintptr_t>(b.data) % kWordBytes == 0 &&
           in_words(b.pitch) && in_words(problem.n);
}

}  // namespace

Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_sparse(problem, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
        constexpr int kColumns = 16 / sizeof(T);
        if (has_words(problem, operands.b)) {
            const WordWalker<T, kColumns> walker{lanes_for(problem.n / kColumns)};
            return launch_shares<T, I>("tiled", problem, operands, device, walker);
        }
        return launch_shares<T, I>("tiled", problem, operands, device,
                                   WordWalker<T, 1>{lanes_for(problem.n)});
    });
}

}  // namespace gpumat::multiply::gpu::sparse
