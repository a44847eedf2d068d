// sparse × dense, GPU level `merge`: each warp has equally many rows and entries of A, wherever rows begin.
//
// Since `rows`: no warp waits for one that has a long row, and short rows share a warp. A row that several
// warps have is summed up in parts, which a second kernel adds in their order. What limits it: instructions,
// a load of one element of B for each multiply-add.
//
// Source of the idea: merge-based products, Merrill and Garland (2016).
#include "kernels/multiply/gpu/sparse/levels.hpp"
#include "kernels/multiply/gpu/sparse/shares.cuh"

namespace gpumat::multiply::gpu::sparse {
namespace {

/// A lane has two columns, 32 apart.
struct ColumnWalker {
    static constexpr int kColumns = 2;
    static constexpr int kWidth = kColumns * kWarp;

    [[nodiscard]] __host__ __device__ std::int64_t panels(std::int64_t n) const {
        return (n + kWidth - 1) / kWidth;
    }
    [[nodiscard]] __device__ bool owns() const { return true; }
    [[nodiscard]] __device__ std::int64_t column(std::int64_t panel, int c) const {
        return panel * kWidth + c * kWarp + threadIdx.x % kWarp;
    }

    template <class T, class I>
    __device__ void add(const Arguments<T>& p, const Rows<T, I>& a, std::int64_t begin, std::int64_t end,
                        std::int64_t panel, Sum<T>* sums) const {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        for (std::int64_t first = begin; first < end; first += kWarp) {
            const int count = static_cast<int>(end - first < kWarp ? end - first : kWarp);
            const std::int64_t mine = first + (lane < count ? lane : 0);
            const I row = a.columns[mine];
            const Sum<T> value = to_sum(a.values[mine]);
            for (int e = 0; e < count; ++e) {
                const I row_of_b = __shfl_sync(~0U, row, e);
                const Sum<T> factor = from_lane(value, e);
                for (int c = 0; c < kColumns; ++c) {
                    const std::int64_t j = column(panel, c);
                    if (j < p.n) sums[c] = multiply_add(factor, to_sum(*p.b.at(row_of_b, j)), sums[c]);
                }
            }
        }
    }

    template <class S>
    __device__ void complete(S*) const {}
};

}  // namespace

Launch prepare_merge(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_sparse(problem, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
        return launch_shares<T, I>("merge", problem, operands, device, ColumnWalker{});
    });
}

}  // namespace gpumat::multiply::gpu::sparse
