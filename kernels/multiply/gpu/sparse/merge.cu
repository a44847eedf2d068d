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

constexpr int kColumns = 2;  ///< of a lane, 32 apart

__host__ __device__ std::int64_t panels_of(std::int64_t n) {
    constexpr std::int64_t kWidth = kColumns * kWarp;
    return (n + kWidth - 1) / kWidth;
}

__device__ __forceinline__ std::int64_t column_of(std::int64_t panel, int c) {
    return (panel * kColumns + c) * kWarp + threadIdx.x % kWarp;
}

/// Adds the products of some entries of a row to the sums of the lane.
template <class T, class I>
__device__ __forceinline__ void add_entries(const Arguments<T>& p, const Rows<T, I>& a, std::int64_t begin,
                                            std::int64_t end, std::int64_t panel, Sum<T>* sums) {
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
                const std::int64_t j = column_of(panel, c);
                if (j < p.n) sums[c] = multiply_add(factor, to_sum(*p.b.at(row_of_b, j)), sums[c]);
            }
        }
    }
}

/// A warp takes a panel of columns of a share, row by row.
template <class T, class I>
__global__ void __launch_bounds__(kShareThreads)
    merge_kernel(Arguments<T> p, Rows<T, I> a, Shares shares, Partial<T> partial) {
    const std::int64_t panels = panels_of(p.n);
    const std::int64_t warps = std::int64_t{gridDim.x} * (kShareThreads / kWarp);
    for (std::int64_t at = (std::int64_t{blockIdx.x} * kShareThreads + threadIdx.x) / kWarp;
         at < shares.count * panels; at += warps) {
        const std::int64_t share = at / panels;
        const std::int64_t panel = at % panels;
        const Cut begin = shares.cuts[share];
        const Cut end = shares.cuts[share + 1];
        const bool has_head = begin.row < p.m && begin.entry > a.pointers[begin.row];
        std::int64_t entry = begin.entry;
        for (std::int64_t row = begin.row; row <= end.row; ++row) {
            const bool ends = row < end.row;
            const std::int64_t last = ends ? a.pointers[row + 1] : end.entry;
            if (!ends && entry == last) break;
            Sum<T> sums[kColumns] = {};
            add_entries(p, a, entry, last, panel, sums);
            entry = last;
            const bool is_head = has_head && row == begin.row;
            for (int c = 0; c < kColumns; ++c) {
                const std::int64_t j = column_of(panel, c);
                if (j >= p.n) continue;
                if (is_head) {
                    partial.head(share)[j] = sums[c];
                } else if (ends) {
                    p.finish(row, j, sums[c]);
                } else {
                    partial.tail(share)[j] = sums[c];
                }
            }
        }
    }
}

}  // namespace

Launch prepare_merge(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_sparse(problem, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
        const Arguments<T> arguments(problem, operands);
        const Rows<T, I> rows(operands.a);
        const Shares shares = shares_for_teams(problem, device, kWarp);
        const unsigned blocks = blocks_of(shares.count * panels_of(problem.n), kShareThreads / kWarp);
        return launch_shares<T>("merge", problem, operands, device, shares,
                                [=](cudaStream_t stream, const Shares& cut, const Partial<T>& partial) {
                                    merge_kernel<<<blocks, kShareThreads, 0, stream>>>(arguments, rows, cut,
                                                                                       partial);
                                });
    });
}

}  // namespace gpumat::multiply::gpu::sparse
