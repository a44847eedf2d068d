// sparse × dense, GPU level `rows`: a warp a row of C, whose lanes have neighbouring columns.
//
// Since `serial`: the lanes read 32 entries of A at once and hand them to each other, so that each entry is
// loaded once for 64 columns of B instead of once a lane, and the loads of B do not wait for it. What limits
// it: a warp with a long row works while all others are done, and short rows leave lanes without work.
//
// Source of the idea: the vector kernel of Bell and Garland (2009); rows split, Yang, Buluç and Owens (2018).
#include "kernels/multiply/gpu/sparse/entries.cuh"
#include "kernels/multiply/gpu/sparse/levels.hpp"

namespace gpumat::multiply::gpu::sparse {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 2;  ///< of a lane, 32 apart

template <class T, class I>
__global__ void __launch_bounds__(kThreads) row_kernel(Arguments<T> p, Rows<T, I> a) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t panels = (p.n + kColumns * kWarp - 1) / (kColumns * kWarp);
    const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / kWarp);
    for (std::int64_t at = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp; at < p.m * panels;
         at += warps) {
        const std::int64_t i = at / panels;
        const std::int64_t j = at % panels * kColumns * kWarp + lane;
        const std::int64_t end = a.pointers[i + 1];
        Sum<T> sums[kColumns] = {};
        for (std::int64_t first = a.pointers[i]; first < end; first += kWarp) {
            const int count = static_cast<int>(end - first < kWarp ? end - first : kWarp);
            const std::int64_t mine = first + (lane < count ? lane : 0);
            const I column = a.columns[mine];
            const Sum<T> value = to_sum(a.values[mine]);
            for (int e = 0; e < count; ++e) {
                const I row_of_b = __shfl_sync(~0U, column, e);
                const Sum<T> factor = from_lane(value, e);
                for (int c = 0; c < kColumns; ++c)
                    if (j + c * kWarp < p.n)
                        sums[c] = multiply_add(factor, to_sum(*p.b.at(row_of_b, j + c * kWarp)), sums[c]);
            }
        }
        for (int c = 0; c < kColumns; ++c)
            if (j + c * kWarp < p.n) p.finish(i, j + c * kWarp, sums[c]);
    }
}

}  // namespace

Launch prepare_rows(const Problem& problem, const Operands& operands, const Device&) {
    return visit_sparse(problem, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
        const std::int64_t panels = (problem.n + kColumns * kWarp - 1) / (kColumns * kWarp);
        const Geometry geometry{dim3(blocks_of(problem.m * panels, kThreads / kWarp)), dim3(kThreads)};
        return make_launch("rows", geometry, row_kernel<T, I>, Arguments<T>(problem, operands),
                           Rows<T, I>(operands.a));
    });
}

}  // namespace gpumat::multiply::gpu::sparse
