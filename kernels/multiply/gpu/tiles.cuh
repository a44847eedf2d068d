#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/common/launch.cuh"

namespace gpumat::multiply::gpu {

template <class Integer>
__host__ __device__ constexpr Integer divide_up(Integer value, Integer by) {
    return (value + by - 1) / by;
}

/// The launch of one block for every rows×cols tile of C. Kernels walk over the tiles with the grid's width
/// as their step, so a matrix with more tiles than a grid can hold is no special case.
inline Geometry blocks_for_tiles(const Problem& problem, int rows, int cols, dim3 block) {
    const std::int64_t tiles =
        divide_up<std::int64_t>(problem.m, rows) * divide_up<std::int64_t>(problem.n, cols);
    return {
        .grid = dim3(static_cast<unsigned>(std::min<std::int64_t>(tiles, std::numeric_limits<int>::max()))),
        .block = block};
}

}  // namespace gpumat::multiply::gpu
